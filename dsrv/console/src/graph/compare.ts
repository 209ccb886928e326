// The difference of two versions of a machine, as a graph of both.
import type { NodeJson } from "../api/types";
import { graphOfNodes, type Edge, type Graph } from "./model";

export type Difference = "added" | "gone" | "changed" | "same";

export interface Compared {
  graph: Graph;
  boxes: Map<string, Difference>;
  edges: Map<string, Difference>;
}

function withoutStats(node: NodeJson | undefined): string {
  const { stats: _, ...rest } = node ?? {};
  return JSON.stringify(rest);
}

export function edgeKey(edge: Edge): string {
  return `${edge.from}\n${edge.to}\n${edge.label}`;
}

function told<T>(before: boolean, after: boolean, same: T, changed: T | undefined): Difference | T {
  if (!before) return "added";
  if (!after) return "gone";
  return changed ?? same;
}

export function compare(before: NodeJson[], after: NodeJson[]): Compared {
  const [old, fresh] = [graphOfNodes(before), graphOfNodes(after)];
  const oldBoxes = new Set(old.boxes.map((box) => box.id));
  const freshBoxes = new Set(fresh.boxes.map((box) => box.id));
  const oldEdges = new Set(old.edges.map(edgeKey));
  const freshEdges = new Set(fresh.edges.map(edgeKey));
  const find = (nodes: NodeJson[], id: string) => nodes.find((node) => node.id === id);
  const boxes = [...fresh.boxes, ...old.boxes.filter((box) => !freshBoxes.has(box.id))];
  const edges = [...fresh.edges, ...old.edges.filter((edge) => !freshEdges.has(edgeKey(edge)))];
  return {
    graph: { boxes, edges },
    boxes: new Map(
      boxes.map(({ id }) => {
        const changed =
          withoutStats(find(before, id)) !== withoutStats(find(after, id)) ? ("changed" as const) : undefined;
        return [id, told<Difference>(oldBoxes.has(id), freshBoxes.has(id), "same", changed)];
      }),
    ),
    edges: new Map(
      edges.map((edge) => [
        edgeKey(edge),
        told<Difference>(oldEdges.has(edgeKey(edge)), freshEdges.has(edgeKey(edge)), "same", undefined),
      ]),
    ),
  };
}
