import assert from "node:assert/strict";
import { test } from "node:test";
import dagre from "@dagrejs/dagre";
import { order, type Ranked } from "./order";

type Laid = InstanceType<typeof dagre.graphlib.Graph>;

// Pairs of edges that cross, each pair looked at.
function crossed(graph: Ranked): number {
  const place = (id: string) => graph.node(id) as { rank: number; order: number };
  const lines = graph.edges().map(({ v, w }) => [place(v), place(w)] as const);
  let count = 0;
  lines.forEach(([a, b], i) => {
    for (const [c, d] of lines.slice(i + 1))
      if (a.rank === c.rank && (a.order - c.order) * (b.order - d.order) < 0) ++count;
  });
  return count;
}

function laidOut(edges: [number, number][], by: (graph: Laid, theirs: (graph: Laid, opts: object) => void) => void) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ ranker: "tight-tree" });
  edges.flat().forEach((box) => graph.setNode(`n${box}`, { width: 100, height: 40 }));
  edges.forEach(([from, to], i) => graph.setEdge(`n${from}`, `n${to}`, { width: 30, height: 16 }, String(i)));
  let crossings = 0;
  dagre.layout(graph, {
    customOrder: (ranked, theirs) => {
      by(ranked, theirs as never);
      crossings = crossed(ranked as unknown as Ranked);
    },
  });
  return crossings;
}

// Always the same ones.
function graphs(count: number): [number, number][][] {
  let seed = 7;
  const below = (most: number) => (seed = (seed * 16807) % 2147483647) % most;
  return Array.from({ length: count }, () => {
    const boxes = 10 + below(30);
    const edges: [number, number][] = [];
    for (let box = 1; box < boxes; ++box) edges.push([below(box), box]);
    for (let i = below(boxes); i > 0; --i) {
      const [from, to] = [below(boxes), below(boxes)];
      if (from !== to) edges.push([from, to]);
    }
    return edges;
  });
}

test("of two that need not cross none does", () => {
  const edges: [number, number][] = [
    [0, 1],
    [0, 2],
    [1, 4],
    [2, 3],
  ];
  assert.equal(laidOut(edges, (graph) => order(graph as unknown as Ranked)), 0);
});

test("there are no more crossings than dagre makes, and each rank has each place once", () => {
  const sums = { ours: 0, theirs: 0 };
  for (const edges of graphs(30)) {
    sums.ours += laidOut(edges, (graph) => {
      order(graph as unknown as Ranked);
      const places = graph.nodes().map((id) => graph.node(id) as { rank: number; order: number });
      assert.equal(new Set(places.map(({ rank, order: at }) => `${rank} ${at}`)).size, places.length);
    });
    sums.theirs += laidOut(edges, (graph, theirs) => theirs(graph, {}));
  }
  assert.ok(sums.ours <= sums.theirs, `${sums.ours} crossings, dagre makes ${sums.theirs}`);
});
