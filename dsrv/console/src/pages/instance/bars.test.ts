import assert from "node:assert/strict";
import test from "node:test";
import type { Change_KindJson, ChangeJson } from "../../api/types";
import { barsOf, criticalPath, passedOf } from "./bars";
import { visitFrom } from "./visits";

function change(second: number, kind: Change_KindJson, fields: Partial<ChangeJson>): ChangeJson {
  return { seq: String(second), time: new Date(second * 1000).toISOString(), kind, ...fields };
}

const HISTORY = [
  change(0, "STARTED", { node: "reserve", visit: "1" }),
  change(2, "CLAIMED", { node: "reserve", visit: "1", attempt: 1, client: "w1" }),
  change(5, "TIMED_OUT", { node: "reserve", visit: "1", attempt: 1 }),
  change(6, "CLAIMED", { node: "reserve", visit: "1", attempt: 2, client: "w2" }),
  change(8, "TRANSITIONED", { prevNode: "reserve", node: "ship", transition: "ok", visit: "2", attempt: 2 }),
  change(9, "CLAIMED", { node: "ship", visit: "2", attempt: 1 }),
  change(11, "TRANSITIONED", { prevNode: "ship", node: "shipped", transition: "ok", visit: "3" }),
  change(11, "FINISHED", { node: "shipped", visit: "3", note: "SUCCESS" }),
];

test("each visit is a bar of what was waited, worked and lost", () => {
  const bars = barsOf(HISTORY, 20_000);
  assert.deepEqual(
    bars.map((bar) => [bar.node, bar.from, bar.to, bar.open, bar.end]),
    [
      ["reserve", 0, 8000, false, "ok"],
      ["ship", 8000, 11_000, false, "ok"],
      ["shipped", 11_000, 11_000, false, "SUCCESS"],
    ],
  );
  assert.deepEqual(
    bars[0]!.parts.map((part) => [part.phase, part.from, part.to, part.attempt]),
    [
      ["waited", 0, 2000, undefined],
      ["timed out", 2000, 5000, 1],
      ["waited", 5000, 6000, undefined],
      ["worked", 6000, 8000, 2],
    ],
  );
});

test("the ends of a plan are no visits", () => {
  const bars = barsOf(
    [
      change(0, "STARTED", { node: "/start", visit: "1" }),
      change(0, "TRANSITIONED", { prevNode: "/start", node: "copy", transition: "ok", visit: "2" }),
      change(3, "TRANSITIONED", { prevNode: "copy", node: "/end", transition: "ok", visit: "3" }),
    ],
    4000,
  );
  assert.deepEqual(
    bars.map((bar) => bar.node),
    ["copy"],
  );
});

test("visits are gone through in the order of time", () => {
  const places = (at: number, later: boolean) => visitFrom(HISTORY, at, later);
  assert.deepEqual([places(-1, true), places(-1, false)], [0, 7]);
  assert.equal(places(0, true), 4, "records of the same visit are passed");
  assert.equal(places(4, false), 3);
  assert.equal(places(0, false), undefined);
});

test("what goes on ends now", () => {
  const bars = barsOf(HISTORY.slice(0, 6), 12_000);
  assert.deepEqual(
    bars.map((bar) => [bar.node, bar.to, bar.open]),
    [
      ["reserve", 8000, false],
      ["ship", 12_000, true],
    ],
  );
});

test("suspended steps are told apart", () => {
  const bars = barsOf(
    [
      change(0, "STARTED", { node: "a", visit: "1" }),
      change(1, "CLAIMED", { node: "a", visit: "1", attempt: 1 }),
      change(2, "SUSPENDED", { node: "a", visit: "1" }),
      change(5, "WOKEN", { node: "a", visit: "1" }),
      change(6, "CLAIMED", { node: "a", visit: "1", attempt: 2 }),
    ],
    7000,
  );
  assert.deepEqual(
    bars[0]!.parts.map((part) => part.phase),
    ["waited", "worked", "suspended", "waited", "worked"],
  );
});

test("the critical path goes back from the end", () => {
  const bars = barsOf(HISTORY, 20_000);
  assert.deepEqual(
    [...criticalPath(bars)].map((bar) => bar.node),
    ["shipped", "ship", "reserve"],
  );
});

test("edges that were passed are counted", () => {
  const { edges, nodes } = passedOf([...HISTORY, HISTORY[4]!]);
  assert.equal(edges.get("reserve\nship"), 2);
  assert.ok(nodes.has("shipped") && !nodes.has("approve"));
});
