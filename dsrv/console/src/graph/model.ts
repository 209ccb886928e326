// A graph to be drawn: what it consists of. How it stands at the moment is told beside it.
import type { NodeJson, StepJson, StepRowJson } from "../api/types";

export interface Box {
  id: string;
  kind: string; // work, delay, manual, held, gate, final, spawn, group
  start?: boolean;
  final?: boolean;
  members?: number; // of a group
  title?: string; // in place of the id
}
export interface Edge {
  from: string;
  to: string;
  label: string;
}
export interface Graph {
  boxes: Box[];
  edges: Edge[];
}

// Edges between the same boxes are one, with all their names.
export function merged(edges: Edge[]): Edge[] {
  const found = new Map<string, { from: string; to: string; labels: Set<string> }>();
  for (const { from, to, label } of edges) {
    const key = JSON.stringify([from, to]);
    const edge = found.get(key) ?? { from, to, labels: new Set() };
    if (label) edge.labels.add(label);
    found.set(key, edge);
  }
  return [...found.values()].map(({ from, to, labels }) => ({ from, to, label: [...labels].join(", ") }));
}

// System nodes are in every machine, and instances only pass them.
export function graphOfNodes(nodes: NodeJson[]): Graph {
  const boxes = nodes
    .filter((node) => node.kind !== "system")
    .map((node) => ({ id: node.id!, kind: node.kind ?? "work", start: node.start, final: node.final }));
  const known = new Set(boxes.map((box) => box.id));
  const edges = nodes.flatMap((node) =>
    (node.transitions ?? []).flatMap((edge) =>
      (edge.targets ?? []).map((to) => ({
        from: node.id!,
        to,
        label: `${edge.transition ?? ""}${edge.condition ? " if …" : ""}`,
      })),
    ),
  );
  return { boxes, edges: merged(edges.filter((edge) => known.has(edge.from) && known.has(edge.to))) };
}

function kindOfStep(step: StepJson): string {
  return step.children || !step.action ? "spawn" : "work";
}

// A plan as it was written: its steps, and what each waits for.
export function graphOfSteps(steps: StepJson[]): Graph {
  const known = new Set(steps.map((step) => step.path));
  return {
    boxes: steps.map((step) => ({
      id: step.path!,
      kind: kindOfStep(step),
      start: !(step.after ?? []).length,
    })),
    edges: merged(
      steps.flatMap((step) =>
        (step.after ?? [])
          .filter((name) => known.has(name))
          .map((from) => ({ from, to: step.path!, label: "" })),
      ),
    ),
  };
}

export interface Level {
  under: string;
  rows: StepRowJson[];
}

// Levels of a plan, the top one first, and at most so many boxes: what lies in a group that was opened
// hangs on its box.
export function graphOfLevels(levels: Level[], most: number): Graph {
  const parts = levels.map(({ rows }) => graphOfRows(rows));
  const inside = levels.flatMap(({ under, rows }) =>
    rows
      .filter((row) => under !== "" && !(row.after ?? []).length)
      .map((row) => ({ from: under, to: row.path!, label: "" })),
  );
  const boxes = parts
    .flatMap((part, i) =>
      levels[i]!.under === "" ? part.boxes : part.boxes.map((box) => ({ ...box, start: false })),
    )
    .slice(0, most);
  const drawn = new Set(boxes.map((box) => box.id));
  const edges = [...parts.flatMap((part) => part.edges), ...inside];
  return { boxes, edges: edges.filter((edge) => drawn.has(edge.from) && drawn.has(edge.to)) };
}

// One level of a plan's steps: groups are boxes that open.
export function graphOfRows(rows: StepRowJson[]): Graph {
  const known = new Set(rows.map((row) => row.path));
  return {
    boxes: rows.map((row) => ({
      id: row.path!,
      kind: row.step ? kindOfStep(row.step) : "group",
      start: !(row.after ?? []).length,
      members: row.step ? undefined : Number(row.steps ?? 0),
    })),
    edges: merged(
      rows.flatMap((row) =>
        (row.after ?? [])
          .filter((name) => known.has(name))
          .map((from) => ({ from, to: row.path!, label: "" })),
      ),
    ),
  };
}
