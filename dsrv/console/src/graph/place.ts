// Where the boxes and edges of a graph stand: dagre does it, for each part that hangs together; the parts
// are put in rows.
import dagre from "@dagrejs/dagre";
import { order } from "./order";
import type { Line, Places, Sized, ToPlace } from "./places";

type Edge = ToPlace["edges"][number] & { at: number }; // its place among all edges
type Laid = InstanceType<typeof dagre.graphlib.Graph>;
interface Part {
  boxes: Sized[];
  edges: Edge[];
}

const MARGIN = 16;
const APART = 26; // between parts
const WIDE = 1.8; // how many times as wide as high all parts together are, about
const NARROW = 0.7; // of a drawing from the top down

// The parts of the graph between which no edge is, in the order of their first boxes.
function partsOf({ boxes, edges }: ToPlace): Part[] {
  const parent = new Map(boxes.map(({ id }) => [id, id]));
  const root = (id: string): string => {
    let at = id;
    while (parent.get(at) !== at) at = parent.get(at)!;
    parent.set(id, at);
    return at;
  };
  for (const { from, to } of edges) parent.set(root(from), root(to));
  const parts = new Map<string, Part>();
  for (const box of boxes) {
    const part = parts.get(root(box.id)) ?? { boxes: [], edges: [] };
    part.boxes.push(box);
    parts.set(root(box.id), part);
  }
  edges.forEach((edge, at) => parts.get(root(edge.from))!.edges.push({ ...edge, at }));
  return [...parts.values()];
}

function laidOut({ boxes, edges }: Part, down: boolean): { width: number; height: number; of: Laid } {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({
    rankdir: down ? "TB" : "LR",
    ranker: "tight-tree",
    nodesep: 26,
    ranksep: down ? 34 : 46,
    edgesep: 16,
  });
  for (const { id, width, height } of boxes) graph.setNode(id, { width, height });
  for (const { from, to, width, at } of edges)
    graph.setEdge(from, to, { width, height: width > 0 ? 16 : 0, labelpos: "c" }, String(at));
  dagre.layout(graph, { customOrder: order });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { width, height, of: graph };
}

export function place(asked: ToPlace): Places {
  const parts = partsOf(asked);
  const laid = parts.map((part) => laidOut(part, asked.down));
  const area = laid.reduce((sum, { width, height }) => sum + (width + APART) * (height + APART), 0);
  const most = Math.max(...laid.map(({ width }) => width), Math.sqrt(area * (asked.down ? NARROW : WIDE)));
  const places: Places = { width: 0, height: 0, boxes: {}, edges: asked.edges.map(() => ({ points: [] })) };
  let [left, top, high] = [MARGIN, MARGIN, 0];
  parts.forEach((part, i) => {
    const { width, height, of } = laid[i]!;
    if (left > MARGIN && left + width > MARGIN + most) [left, top, high] = [MARGIN, top + high + APART, 0];
    put(part, of, { x: left, y: top }, places);
    places.width = Math.max(places.width, left + width + MARGIN);
    high = Math.max(high, height);
    places.height = top + high + MARGIN;
    left += width + APART;
  });
  return places;
}

function put({ boxes, edges }: Part, graph: Laid, to: { x: number; y: number }, places: Places) {
  const moved = ({ x, y }: { x: number; y: number }) => ({ x: x + to.x, y: y + to.y });
  for (const { id, ...size } of boxes)
    places.boxes[id] = { ...moved(graph.node(id) as { x: number; y: number }), ...size };
  for (const edge of edges) {
    const found = graph.edge(edge.from, edge.to, String(edge.at)) as Line & { x: number; y: number };
    places.edges[edge.at] = {
      points: found.points.map(moved),
      ...(edge.width > 0 ? { label: moved(found) } : {}),
    };
  }
}
