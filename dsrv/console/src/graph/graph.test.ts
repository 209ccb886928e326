import assert from "node:assert/strict";
import test from "node:test";
import { compare, edgeKey } from "./compare";
import { grouped, MOST } from "./groups";
import { graphOfLevels, graphOfNodes, graphOfRows, merged, type Graph } from "./model";
import { place } from "./place";
import { curve, outline } from "./shapes";
import { beginOf } from "./view";

function chain(ids: string[]): Graph {
  return {
    boxes: ids.map((id, i) => ({ id, kind: "work", start: i === 0 })),
    edges: ids.slice(1).map((to, i) => ({ from: ids[i]!, to, label: "ok" })),
  };
}

test("edges between the same boxes are one, with all their names", () => {
  assert.deepEqual(
    merged([
      { from: "a", to: "b", label: "ok" },
      { from: "a", to: "b", label: "paid" },
      { from: "b", to: "a", label: "" },
    ]),
    [
      { from: "a", to: "b", label: "ok, paid" },
      { from: "b", to: "a", label: "" },
    ],
  );
});

test("system nodes are not drawn", () => {
  const graph = graphOfNodes([
    {
      id: "a",
      kind: "work",
      start: true,
      transitions: [
        { transition: "ok", targets: ["b"] },
        { transition: "x", targets: ["dfsmr.timeout"] },
      ],
    },
    { id: "b", kind: "final", final: true },
    { id: "dfsmr.timeout", kind: "system" },
  ]);
  assert.deepEqual(
    graph.boxes.map((box) => box.id),
    ["a", "b"],
  );
  assert.deepEqual(graph.edges, [{ from: "a", to: "b", label: "ok" }]);
});

test("what can be looked at is drawn as it is", () => {
  const graph = chain(["a", "b", "c"]);
  assert.equal(grouped(graph, new Set()), graph);
});

test("a larger graph is drawn by groups of paths, and opened group by group", () => {
  const ids = ["start", ...Array.from({ length: 2000 }, (_, i) => `hosts.${i % 10}.${i}`), "end"];
  const closed = grouped(chain(ids), new Set());
  assert.deepEqual(
    closed.boxes.map((box) => [box.id, box.members]),
    [
      ["start", undefined],
      ["end", undefined],
      ["hosts", 2000],
    ],
  );
  const open = grouped(chain(ids), new Set(["hosts"]));
  assert.equal(open.boxes.length, 12);
  assert.equal(open.boxes.find((box) => box.id === "hosts.3")!.members, 200);
  const further = grouped(chain(ids), new Set(["hosts", "hosts.3"]));
  assert.equal(further.boxes.length, 2 + 9 + 200);
});

test("without paths it is drawn by levels, never more than the most", () => {
  const ids = Array.from({ length: 5000 }, (_, i) => `n${i}`);
  const graph = grouped(chain(ids), new Set());
  assert.ok(graph.boxes.length <= MOST && graph.boxes.length > 1);
  assert.ok(graph.edges.length >= graph.boxes.length - 1);
});

test("loops end", () => {
  const ids = Array.from({ length: 600 }, (_, i) => `n${i}`);
  const graph = chain(ids);
  graph.edges.push({ from: "n599", to: "n0", label: "again" }, { from: "n3", to: "n3", label: "self" });
  assert.ok(grouped(graph, new Set()).boxes.length <= MOST);
});

test("rows of a plan's level are boxes; groups open", () => {
  const graph = graphOfRows([
    { path: "a", step: { path: "a", action: "x" } },
    { path: "hosts", steps: "40", after: ["a"] },
  ]);
  assert.deepEqual(
    graph.boxes.map((box) => [box.kind, box.members]),
    [
      ["work", undefined],
      ["group", 40],
    ],
  );
  assert.deepEqual(graph.edges, [{ from: "a", to: "hosts", label: "" }]);
});

test("places: all boxes apart, all edges with points", () => {
  const ids = Array.from({ length: 40 }, (_, i) => `n${i}`);
  const graph = chain(ids);
  graph.edges.push({ from: "n5", to: "n5", label: "again" }, { from: "n9", to: "n2", label: "back" });
  const places = place({
    down: true,
    boxes: ids.map((id) => ({ id, width: 110, height: 40 })),
    edges: graph.edges.map(({ from, to }) => ({ from, to, width: 20 })),
  });
  const boxes = Object.values(places.boxes);
  assert.equal(boxes.length, 40);
  for (const a of boxes) {
    for (const b of boxes) {
      if (a !== b)
        assert.ok(Math.abs(a.x - b.x) >= 110 || Math.abs(a.y - b.y) >= 40, "boxes lie on each other");
    }
  }
  assert.ok(places.edges.every((edge) => edge.points.length >= 2 && edge.label));
  assert.match(curve(places.edges[0]!), /^M[\d.]+ [\d.]+[QL]/);
  assert.match(outline({ id: "a", kind: "delay" }, boxes[0]!), /Z$/);
});

test("boxes between which nothing is stand in rows, not in one column", () => {
  const ids = Array.from({ length: 100 }, (_, i) => `n${i}`);
  const { width, height, boxes } = place({
    down: false,
    boxes: ids.map((id) => ({ id, width: 120, height: 48 })),
    edges: [],
  });
  assert.ok(width > height && width < 4 * height, `${width} x ${height}`);
  assert.equal(new Set(Object.values(boxes).map(({ x, y }) => `${x} ${y}`)).size, 100);
});

test("500 boxes are laid out in the time that is promised", () => {
  const ids = Array.from({ length: 500 }, (_, i) => `n${i}`);
  const edges = ids.slice(1).map((to, i) => ({ from: ids[Math.floor(i / 2)]!, to, width: 0 }));
  for (let i = 0; i < 150; ++i)
    edges.push({ from: ids[(i * 7) % 250]!, to: ids[250 + ((i * 13) % 250)]!, width: 0 });
  const begin = performance.now();
  place({ down: false, boxes: ids.map((id) => ({ id, width: 120, height: 48 })), edges });
  assert.ok(performance.now() - begin < 8000, "four times the promise, for a machine that is busy");
});

test("two versions are compared as one graph", () => {
  const before = [
    { id: "a", start: true, transitions: [{ transition: "ok", targets: ["b"] }] },
    { id: "b", final: true },
  ];
  const after = [
    { id: "a", start: true, queue: "slow", transitions: [{ transition: "ok", targets: ["c"] }] },
    { id: "c", final: true },
  ];
  const { graph, boxes, edges } = compare(before, after);
  assert.deepEqual(
    [...boxes],
    [
      ["a", "changed"],
      ["c", "added"],
      ["b", "gone"],
    ],
  );
  assert.deepEqual(
    graph.edges.map((edge) => edges.get(edgeKey(edge))),
    ["added", "gone"],
  );
  const counted = compare([{ id: "a", stats: { ready: "1" } }], [{ id: "a", stats: { ready: "2" } }]);
  assert.equal(counted.boxes.get("a"), "same");
});

test("what lies in a group that was opened hangs on its box, as far as it is drawn", () => {
  const levels = [
    { under: "", rows: [{ path: "a", step: {}, steps: "1" }, { path: "g", steps: "3", after: ["a"] }] },
    {
      under: "g",
      rows: ["g.0", "g.1", "g.2"].map((path) => ({
        path,
        step: {},
        after: path === "g.1" ? ["g.0"] : [],
      })),
    },
  ];
  const graph = graphOfLevels(levels, 4);
  assert.deepEqual(
    graph.boxes.map((box) => [box.id, box.start]),
    [
      ["a", true],
      ["g", false],
      ["g.0", false],
      ["g.1", false],
    ],
  );
  assert.deepEqual(
    graph.edges.map(({ from, to }) => [from, to]),
    [
      ["a", "g"],
      ["g.0", "g.1"],
      ["g", "g.0"],
    ],
  );
});

test("a graph that fits is seen wholly; a larger one begins legibly at its first box", () => {
  const box = (x: number, y: number) => ({ x, y, width: 100, height: 40 });
  globalThis.innerHeight = 800;
  const small = { width: 500, height: 100, edges: [], boxes: { a: box(60, 50), b: box(440, 50) } };
  assert.deepEqual(beginOf(small, 1000, 200), { scale: 1, x: 250, y: 50 });
  const large = { width: 40_000, height: 900, edges: [], boxes: { a: box(39_000, 500), b: box(60, 700) } };
  assert.deepEqual(beginOf(large, 1000, 400, "b"), { scale: 0.75, x: 16.5, y: -275 });
  const high = { width: 900, height: 40_000, edges: [], boxes: { a: box(450, 36) } };
  assert.deepEqual(beginOf(high, 1000, 400), { scale: 0.75, x: 162.5, y: 12 });
});
