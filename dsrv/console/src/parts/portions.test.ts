import assert from "node:assert/strict";
import { test } from "node:test";
import { nextPortion, pauseAfter } from "./portions";

test("a portion grows as long as frames are short, and shrinks where one was long, but not below the first", () => {
  assert.equal(nextPortion(20, 16, 20), 40);
  assert.equal(nextPortion(40, 30, 20), 40);
  assert.equal(nextPortion(40, 16, 20), 60);
  assert.equal(nextPortion(90, 90, 20), 45);
  assert.equal(nextPortion(30, 90, 20), 20);
});

test("what nobody sees yet waits after a long frame, but not for long", () => {
  assert.equal(pauseAfter(50), 0);
  assert.equal(pauseAfter(150), 600);
  assert.equal(pauseAfter(5_000), 1_000);
});
