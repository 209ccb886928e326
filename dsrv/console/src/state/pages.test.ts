import assert from "node:assert/strict";
import test from "node:test";
import { gather, type Page } from "./pages";

const SIGNAL = new AbortController().signal;

// Pages one after the other, and the tokens that they were asked for with.
function server(...pages: number[][]) {
  const asked: string[] = [];
  const ask = async (token: string): Promise<Page<number>> => {
    asked.push(token);
    const at = asked.length - 1;
    return { rows: [...pages[at]!], next: at + 1 < pages.length ? `after ${at}` : undefined };
  };
  return { asked, ask };
}

test("a page that is short is filled with those that follow", async () => {
  const { asked, ask } = server([1], [], [2, 3], [4]);
  const page = await gather(ask, "", 3, SIGNAL);
  assert.deepEqual(page.rows, [1, 2, 3]);
  assert.equal(page.next, "after 2");
  assert.deepEqual(asked, ["", "after 0", "after 1"]);
});

test("rows are told as soon as they are found, without those that come later", async () => {
  const { ask } = server([], [1], [2], [3]);
  const told: Page<number>[] = [];
  const page = await gather(ask, "", 10, SIGNAL, (early) => told.push(early));
  assert.deepEqual(page.rows, [1, 2, 3]);
  assert.deepEqual(told, [
    { rows: [1], next: undefined },
    { rows: [1, 2], next: undefined },
  ]);
});

test("a page that is full at once is told but once", async () => {
  const { ask } = server([1, 2], [3]);
  const told: Page<number>[] = [];
  await gather(ask, "", 2, SIGNAL, (early) => told.push(early));
  assert.deepEqual(told, []);
});
