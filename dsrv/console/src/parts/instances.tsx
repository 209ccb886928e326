// Instances in a list: the columns that may be chosen.
import type { InstanceJson, TokenJson } from "../api/types";
import { to } from "../state/route";
import { sortedEntries } from "../text/json";
import { word } from "../text/words";
import type { Column } from "./list";
import { Id, Link, Mark, None, Progress, StateOf, Text, Time, Took } from "./text";

export function workersOf(tokens: TokenJson[]): string[] {
  return tokens
    .flatMap((token) => (token.claims ?? []).map((claim) => claim.worker ?? ""))
    .filter((name) => name !== "");
}

function Where({ of }: { of: InstanceJson }) {
  const tokens = of.tokens ?? [];
  const others = Number(of.tokenCount ?? tokens.length) - 1;
  const token = tokens[0];
  if (!token) return <None />;
  if (of.state === "STOPPED") return <Id of={token.node} />;
  return (
    <span class="where">
      <Mark state={token.state ?? ""} />
      <Id of={token.node} />
      <span class="quiet">
        {" "}
        {word(token.state)}
        {others > 0 ? `, ${others} more` : ""}
      </span>
    </span>
  );
}

function Labels({ of }: { of: Record<string, string> | undefined }) {
  const all = sortedEntries(of);
  return all.length === 0 ? (
    <None />
  ) : (
    <span class="labels">
      {all.map(([key, value]) => (
        <span key={key} class="chip">
          <Text of={`${key}=${value}`} most={40} />
        </span>
      ))}
    </span>
  );
}

export function errorOf(one: InstanceJson): string {
  return one.error || (one.tokens ?? []).find((token) => token.error)?.error || "";
}

// A flow that nobody has defined is no machine that could be opened.
export function MachineOf({ one, version }: { one: InstanceJson; version?: boolean }) {
  if (!one.version)
    return (
      <>
        <Id of={one.machine} /> <span class="quiet">a flow of its own</span>
      </>
    );
  return (
    <Link to={to("machines", one.machine ?? "", version ? { version: one.version } : {})}>
      <Id of={one.machine} /> <span class="quiet">v{one.version}</span>
    </Link>
  );
}

export const INSTANCE_COLUMNS: Column<InstanceJson>[] = [
  { id: "id", title: "Instance", narrow: true, cell: (one) => <Id of={one.id} /> },
  { id: "label", title: "Label", cell: (one) => (one.label ? <Text of={one.label} most={60} /> : <None />) },
  {
    id: "machine",
    title: "Machine",
    cell: (one) => <MachineOf one={one} />,
  },
  {
    id: "state",
    title: "State",
    narrow: true,
    cell: (one) => <StateOf state={one.state} result={one.result} cancel={one.cancel} />,
  },
  { id: "where", title: "Where", cell: (one) => <Where of={one} /> },
  {
    id: "attempt",
    lesser: 3,
    title: "Attempt",
    number: true,
    cell: (one) => one.tokens?.[0]?.attempt || <None />,
  },
  { id: "started", lesser: 2, title: "Started", cell: (one) => <Time of={one.startTime} /> },
  { id: "changed", title: "Changed", narrow: true, cell: (one) => <Time of={one.changeTime} /> },
  {
    id: "took",
    lesser: 2,
    title: "Took",
    number: true,
    cell: (one) => <Took from={one.startTime} until={one.endTime} />,
  },
  {
    id: "progress",
    lesser: 2,
    title: "Progress",
    cell: (one) => <Progress share={Number(one.progress ?? 0)} />,
  },
  {
    id: "worker",
    lesser: 2,
    title: "Worker",
    cell: (one) => <Text of={workersOf(one.tokens ?? []).join(", ") || "–"} most={40} />,
  },
  {
    id: "parent",
    title: "Parent",
    cell: (one) =>
      one.parent ? (
        <Link to={to("instances", one.parent)}>
          <Id of={one.parent} />
        </Link>
      ) : (
        <None />
      ),
  },
  { id: "labels", title: "Labels", cell: (one) => <Labels of={one.labels} /> },
  { id: "error", title: "Error", grow: true, cell: (one) => <Text of={errorOf(one)} most={160} /> },
];

export const DEFAULT_COLUMNS = ["id", "machine", "state", "where", "attempt", "changed", "took", "error"];

export function columnsOf(text: string | null): Column<InstanceJson>[] {
  const wanted = text?.split(",") ?? DEFAULT_COLUMNS;
  const chosen = INSTANCE_COLUMNS.filter((column) => column.id === "id" || wanted.includes(column.id));
  return chosen;
}

// What the list must ask for beyond a brief answer.
export function needsAll(columns: Column<InstanceJson>[]): boolean {
  return columns.some((column) => column.id === "labels" || column.id === "label");
}
