import assert from "node:assert/strict";
import { test } from "node:test";
import { nextPortion } from "./portions";

test("a portion grows as long as frames are short, and shrinks where one was long", () => {
  assert.equal(nextPortion(20, 16), 40);
  assert.equal(nextPortion(40, 30), 40);
  assert.equal(nextPortion(40, 90), 20);
  assert.equal(nextPortion(1, 90), 1);
});
