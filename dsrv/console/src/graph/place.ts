// Where the boxes and edges of a graph stand: dagre does it.
import dagre from "@dagrejs/dagre";
import type { Places, ToPlace } from "./places";

export function place({ boxes, edges, down }: ToPlace): Places {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({
    rankdir: down ? "TB" : "LR",
    ranker: "tight-tree",
    nodesep: 26,
    ranksep: down ? 34 : 46,
    edgesep: 16,
    marginx: 16,
    marginy: 16,
  });
  for (const { id, width, height } of boxes) graph.setNode(id, { width, height });
  edges.forEach(({ from, to, width }, i) =>
    graph.setEdge(from, to, { width, height: width > 0 ? 16 : 0, labelpos: "c" }, String(i)),
  );
  dagre.layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return {
    width,
    height,
    boxes: Object.fromEntries(
      boxes.map(({ id, ...size }) => {
        const { x, y } = graph.node(id) as { x: number; y: number };
        return [id, { x, y, ...size }];
      }),
    ),
    edges: edges.map(({ from, to, width: label }, i) => {
      const edge = graph.edge(from, to, String(i)) as {
        points: { x: number; y: number }[];
        x: number;
        y: number;
      };
      return {
        points: edge.points.map(({ x, y }) => ({ x, y })),
        ...(label > 0 ? { label: { x: edge.x, y: edge.y } } : {}),
      };
    }),
  };
}
