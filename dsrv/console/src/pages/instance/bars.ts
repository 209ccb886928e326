// The timeline of an instance: a bar for each visit of a node, made of its history.
import type { ChangeJson } from "../../api/types";
import { epoch } from "../../text/words";

export type Phase = "waited" | "worked" | "suspended" | "timed out";
export interface Part {
  phase: Phase;
  from: number;
  to: number;
  attempt?: number;
  worker?: string;
}
export interface VisitBar {
  node: string;
  visit: number;
  from: number;
  to: number;
  open: boolean;
  parts: Part[];
  end: string;
  failed: boolean;
}

interface Building {
  bar: VisitBar;
  since: number;
  phase: Phase;
  attempt?: number;
  worker?: string;
}

function close(building: Building, at: number): void {
  const { bar, since, phase, attempt, worker } = building;
  if (at > since) bar.parts.push({ phase, from: since, to: at, attempt, worker });
  building.since = at;
  bar.to = Math.max(bar.to, at);
}

function turn(building: Building, at: number, phase: Phase, change?: ChangeJson): void {
  close(building, at);
  building.phase = phase;
  building.attempt = change?.attempt;
  building.worker = change?.client;
}

// Nodes of the machine itself, and the ends of a plan: nothing waits or works there.
export function isBetween(node: string): boolean {
  return node.startsWith("dfsmr.") || node.startsWith("/");
}

// A record tells of the visit that it led to; what ended is the visit of `prev_node`.
export function barsOf(changes: ChangeJson[], now: number): VisitBar[] {
  const bars: Building[] = [];
  const open = new Map<string, Building>();
  const enter = (node: string, visit: number, at: number, phase: Phase) => {
    const building: Building = {
      since: at,
      phase,
      bar: { node, visit, from: at, to: at, open: true, parts: [], end: "", failed: false },
    };
    bars.push(building);
    open.set(node, building);
  };
  const leave = (node: string, at: number, how: string, failed: boolean) => {
    const building = open.get(node);
    if (!building) return;
    close(building, at);
    building.bar.open = false;
    building.bar.end = how;
    building.bar.failed = failed;
    open.delete(node);
  };
  for (const change of changes) {
    const at = epoch(change.time) ?? now;
    const node = change.node ?? "";
    const here = open.get(change.prevNode || node);
    switch (change.kind) {
      case "STARTED":
        if (node) enter(node, Number(change.visit ?? 1), at, "waited");
        break;
      case "CLAIMED": {
        if (!open.has(node) && node) enter(node, Number(change.visit ?? 0), at, "waited");
        turn(open.get(node)!, at, "worked", change);
        break;
      }
      case "RELINQUISHED":
      case "REFUSED":
      case "ABANDONED":
      case "WOKEN":
      case "RESUMED":
        if (here) turn(here, at, "waited");
        break;
      case "TIMED_OUT":
        if (here) {
          close(here, at);
          const last = here.bar.parts.at(-1);
          if (last?.phase === "worked") last.phase = "timed out";
          turn(here, at, "waited");
        }
        break;
      case "SUSPENDED":
        if (here) turn(here, at, "suspended", change);
        break;
      case "TRANSITIONED":
      case "SKIPPED":
      case "UPGRADED":
        leave(
          change.prevNode || node,
          at,
          change.transition ?? change.kind.toLowerCase(),
          change.transition === "error" || !!change.errorKind,
        );
        if (node && node !== change.prevNode) enter(node, Number(change.visit ?? 0), at, "waited");
        else if (node && change.transition === "error") enter(node, Number(change.visit ?? 0), at, "waited");
        break;
      case "FINISHED":
      case "ABORTED":
      case "CANCELLED":
        if (change.kind === "CANCELLED" && !change.note?.includes("STOPPED") && !change.node) break;
        for (const name of [...open.keys()]) leave(name, at, change.note ?? "", false);
        break;
      default:
        break;
    }
  }
  for (const building of open.values()) close(building, now);
  return bars.map((building) => building.bar).filter((bar) => bar.node !== "" && !isBetween(bar.node));
}

// The visits without which the end would not have come: each began when the one before it on the path ended.
export function criticalPath(bars: VisitBar[]): Set<VisitBar> {
  const path = new Set<VisitBar>();
  let last = bars.reduce<VisitBar | undefined>(
    (best, bar) => (!best || bar.to >= best.to ? bar : best),
    undefined,
  );
  while (last) {
    path.add(last);
    const begin: number = last.from;
    last = bars
      .filter((bar) => !path.has(bar) && bar.to <= begin)
      .reduce<VisitBar | undefined>((best, bar) => (!best || bar.to >= best.to ? bar : best), undefined);
  }
  return path;
}

// How often each edge was passed, and which nodes were entered.
export function passedOf(changes: ChangeJson[]): { edges: Map<string, number>; nodes: Set<string> } {
  const edges = new Map<string, number>();
  const nodes = new Set<string>();
  for (const change of changes) {
    if (change.node) nodes.add(change.node);
    if (change.kind !== "TRANSITIONED" || !change.prevNode || !change.node) continue;
    const key = `${change.prevNode}\n${change.node}`;
    edges.set(key, (edges.get(key) ?? 0) + 1);
  }
  return { edges, nodes };
}
