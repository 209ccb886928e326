import assert from "node:assert/strict";
import test from "node:test";
import { leftOut } from "./fit";

const COLUMNS = [
  { id: "name" },
  { id: "kind", lesser: 2 },
  { id: "count", narrow: true },
  { id: "made", lesser: 3 },
  { id: "size" },
  { id: "note", grow: true },
  { id: "do", keep: true },
];
const WIDTHS = new Map(COLUMNS.map(({ id }) => [id, 100]));

test("lesser columns go first, and no more of them than is needed", () => {
  assert.deepEqual(leftOut(COLUMNS, WIDTHS, 1), ["made"]);
  assert.deepEqual(leftOut(COLUMNS, WIDTHS, 150), ["made", "kind"]);
  assert.deepEqual(leftOut(COLUMNS, WIDTHS, 301), ["made", "kind", "size", "note"]);
});

test("the first column and what is done with the row stay", () => {
  assert.deepEqual(leftOut(COLUMNS, WIDTHS, 5000), ["made", "kind", "size", "note", "count"]);
});

test("what a small screen does not show gains nothing", () => {
  assert.deepEqual(leftOut(COLUMNS, new Map([...WIDTHS, ["made", 0]]), 1), ["kind"]);
});
