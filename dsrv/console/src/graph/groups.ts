// A graph of more boxes than can be looked at is drawn by groups: first by path, then by level. A group
// opens on its own, so that no more is drawn than was asked for.
import { merged, type Graph } from "./model";

export const MOST = 500;

function pathsOf(id: string): string[] {
  const found: string[] = [];
  for (let i = 1; i < id.length; ++i) {
    if (id[i] === "." || id[i] === "/") found.push(id.slice(0, i));
  }
  return found;
}

// The steps from the start, in the breadth: loops count once.
function levelsOf(graph: Graph): Map<string, number> {
  const next = new Map<string, string[]>();
  for (const { from, to } of graph.edges) next.set(from, [...(next.get(from) ?? []), to]);
  const entered = new Set(graph.edges.map((edge) => edge.to));
  const levels = new Map<string, number>();
  let row = graph.boxes.filter((box) => box.start || !entered.has(box.id)).map((box) => box.id);
  for (let level = 0; row.length > 0; ++level) {
    row = row.filter((id) => !levels.has(id));
    for (const id of row) levels.set(id, level);
    row = row.flatMap((id) => next.get(id) ?? []);
  }
  return levels;
}

// Which group each box is drawn as; itself: none.
function byPath(graph: Graph, open: ReadonlySet<string>): Map<string, string> {
  const sizes = new Map<string, number>();
  for (const { id } of graph.boxes)
    for (const path of pathsOf(id)) sizes.set(path, (sizes.get(path) ?? 0) + 1);
  return new Map(
    graph.boxes.map(({ id }) => [
      id,
      pathsOf(id).find((path) => !open.has(path) && sizes.get(path)! > 1) ?? id,
    ]),
  );
}

function byLevel(graph: Graph, open: ReadonlySet<string>, most: number): Map<string, string> {
  const levels = levelsOf(graph);
  const last = Math.max(0, ...levels.values());
  const wide = Math.ceil((last + 1) / (most / 2));
  return new Map(
    graph.boxes.map(({ id }) => {
      const first = Math.floor((levels.get(id) ?? 0) / wide) * wide;
      const name = wide === 1 ? `level ${first}` : `levels ${first} to ${first + wide - 1}`;
      return [id, open.has(name) ? id : name];
    }),
  );
}

function drawnBy(graph: Graph, groups: Map<string, string>): Graph {
  const members = new Map<string, number>();
  for (const group of groups.values()) members.set(group, (members.get(group) ?? 0) + 1);
  const boxes = graph.boxes.filter((box) => groups.get(box.id) === box.id);
  for (const [group, size] of members) {
    if (!groups.has(group) || groups.get(group) !== group)
      boxes.push({ id: group, kind: "group", members: size });
  }
  const edges = graph.edges.map(({ from, to, label }) => ({
    from: groups.get(from)!,
    to: groups.get(to)!,
    label,
  }));
  const across = edges.filter((edge) => edge.from !== edge.to);
  const inside = graph.edges.filter((edge) => edge.from === edge.to && groups.get(edge.from) === edge.from);
  return { boxes, edges: merged([...across, ...inside]) };
}

export function grouped(graph: Graph, open: ReadonlySet<string>, most = MOST): Graph {
  if (graph.boxes.length <= most) return graph;
  const paths = drawnBy(graph, byPath(graph, open));
  if (paths.boxes.length <= most) return paths;
  const levels = drawnBy(paths, byLevel(paths, open, most));
  return { ...levels, boxes: levels.boxes.slice(0, most) };
}
