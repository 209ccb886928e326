import assert from "node:assert/strict";
import test from "node:test";
import { askStepsAhead, listSteps } from "./ahead";
import { envelope } from "./envelopes";

interface Asked {
  instance: string;
  topics?: { steps: Asked }[];
}

test("steps that were asked for ahead are asked for once, and taken once", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const asked: string[] = [];
  const rows = () => ({ rows: [{ path: String(asked.length) }] });
  context.mock.method(globalThis, "fetch", async (path: string, { body }: { body: string | Blob }) => {
    if (!path.endsWith("/Watch")) {
      asked.push((JSON.parse(body as string) as Asked).instance);
      return new Response(JSON.stringify(rows()));
    }
    const { topics } = JSON.parse((await new Response(body).text()).slice(5)) as Asked;
    asked.push(`ahead ${topics![0]!.steps.instance}`);
    const gone = topics![0]!.steps.instance === "none";
    const told = envelope({ key: "ahead", ...(gone ? { gone: {} } : { steps: rows() }) });
    return new Response(Uint8Array.from(told));
  });
  const take = async (instance: string) => (await listSteps({ instance })).rows![0]!.path;
  askStepsAhead({ instance: "a" });
  askStepsAhead({ instance: "a" });
  assert.equal(await take("a"), "1");
  assert.equal(await take("a"), "2");
  assert.equal(await take("b"), "3");
  askStepsAhead({ instance: "none" });
  assert.equal(await take("none"), "5"); // what the page asks for is told as it is
  askStepsAhead({ instance: "a" });
  context.mock.timers.tick(10_000);
  await take("a"); // nobody took it in time
  const all = ["ahead a", "a", "b", "ahead none", "none", "ahead a", "a"];
  assert.deepEqual(asked.sort(), all.sort());
});
