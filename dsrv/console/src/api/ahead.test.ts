import assert from "node:assert/strict";
import test from "node:test";
import { askAhead, callOrTake } from "./ahead";

test("what was asked ahead is asked once, and taken once", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const asked: string[] = [];
  context.mock.method(globalThis, "fetch", async (_path: string, { body }: { body: string }) => {
    asked.push(JSON.parse(body).instance);
    return new Response(JSON.stringify({ rows: [{ path: String(asked.length) }] }));
  });
  const take = async (instance: string) => {
    const reply = await callOrTake("ViewService", "ListSteps", { instance });
    return reply.rows![0]!.path;
  };
  askAhead("ViewService", "ListSteps", { instance: "a" });
  askAhead("ViewService", "ListSteps", { instance: "a" });
  assert.deepEqual(asked, ["a"]);
  assert.equal(await take("a"), "1");
  assert.equal(await take("a"), "2");
  assert.equal(await take("b"), "3");
  askAhead("ViewService", "ListSteps", { instance: "a" });
  context.mock.timers.tick(10_000);
  assert.equal(await take("a"), "5"); // the answer that nobody took was too old
  assert.deepEqual(asked, ["a", "a", "b", "a", "a"]);
});
