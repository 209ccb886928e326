import assert from "node:assert/strict";
import test from "node:test";
import { allKeys, bind } from "./keys";

test("of several that bind a key the last counts, and none comes back that has let go", () => {
  const told = () => allKeys().find(({ keys }) => keys === "z")?.what;
  const first = bind("z", "first", () => undefined);
  const second = bind("z", "second", () => undefined);
  assert.equal(told(), "second");
  first();
  const third = bind("z", "third", () => undefined);
  third();
  assert.equal(told(), "second");
  second();
  assert.equal(told(), undefined);
});
