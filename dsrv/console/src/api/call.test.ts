import assert from "node:assert/strict";
import test from "node:test";
import { call, callAhead } from "./call";

test("what was asked for ahead is asked for once, and taken once, be it refused", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let asked = 0;
  context.mock.method(globalThis, "fetch", async (_: string, { body }: { body: string }) => {
    ++asked;
    const { id } = JSON.parse(body) as { id: string };
    if (id === "none") return new Response('{"code": "not_found", "message": "no"}', { status: 404 });
    return new Response(JSON.stringify({ id: `${id} ${asked}` }));
  });
  const get = async (id: string) => (await call("RunnerService", "GetInstance", { id })).id;
  const ahead = (id: string) => callAhead("RunnerService", "GetInstance", { id });
  void ahead("a");
  void ahead("a");
  assert.equal(await get("b"), "b 2");
  assert.equal(await get("a"), "a 1");
  assert.equal(await get("a"), "a 3");
  ahead("none").catch(() => undefined);
  await assert.rejects(get("none"), { code: "not_found" });
  void ahead("a");
  context.mock.timers.tick(10_000);
  assert.equal(await get("a"), "a 6"); // nobody took it in time
});
