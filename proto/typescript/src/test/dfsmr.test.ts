// The loop against a real server is tested by tests/clients of the repository.
import { strict as assert } from "node:assert";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { BadMachine, Client, DfsmrError, NoSuchInstance, Retry, StaleClaim, Worker, services, testing } from "../index";
import { ofItem } from "../errors";
import { errorReport, reportOf, type Result } from "../task";
import { build } from "../values";

test("a task reads its message and tells its progress", async () => {
  const task = testing.task<{ url: string }>({ url: "u" }, {
    nodeParams: '{"n":9007199254740993}', checkpoint: '{"offset":1}', attempt: 3, phase: "run",
    deadline: { seconds: "60", nanos: 500_000_000 },
  });
  assert.equal(task.params.url, "u");
  assert.equal(task.inputText, '{"n":9007199254740993}');
  assert.deepEqual([task.attempt, task.phase, task.visit], [3, "run", 1]);
  assert.deepEqual(task.checkpoint, { offset: 1 });
  assert.equal(task.deadline?.getTime(), 60_500);
  await task.progress(0.5, { checkpoint: { n: 1 }, note: "half" });
  assert.deepEqual(task.progressed, [{ progress: 0.5, checkpoint: '{"n":1}', note: "half" }]);
  await assert.rejects(task.progress(NaN), RangeError);
  assert.equal(testing.task().checkpoint, undefined);
});

test("what a handler may return", () => {
  const cases: [Result, string, string][] = [[undefined, "ok", ""], ["no", "no", ""],
    [["ok", { a: 1 }], "ok", '{"a":1}'], [{ output: { a: 1 } }, "ok", '{"a":1}'], [["ok", '{"a": 1}'], "ok", '{"a": 1}']];
  for (const [value, transition, output] of cases) {
    const report = reportOf(value);
    assert.deepEqual([report.transition, report.output], [transition, output]);
  }
  for (const wrong of [7, { status: 200 }, ["ok", [1]], ["ok", { a: NaN }], ["ok", { a: 1n }], { start: [{ machin: "job" }] }]) {
    assert.throws(() => reportOf(wrong as unknown as Result), TypeError);
  }
});

test("starts have the keys of a StartRequest, errors those of a failure", () => {
  const report = reportOf({ start: [{ machine: "job", params: { n: 1 }, startAt: "2026-01-02T03:04:05Z" }] });
  assert.deepEqual(report.starts, [{ machine: "job", params: '{"n":1}', startAt: { seconds: "1767323045", nanos: 0 } }]);
  const failed = errorReport(new Retry("later", 0.5), false);
  assert.deepEqual([failed.transition, failed.error, failed.retryAfter], ["error", "later", { seconds: "0", nanos: 500_000_000 }]);
});

test("messages are made of JavaScript's values", () => {
  assert.deepEqual(build("dfsmr.v1.ListInstancesRequest", { state: "paused", labels: { a: "b" }, pageSize: undefined }),
    { state: "PAUSED", labels: { a: "b" } });
  assert.deepEqual(build("dfsmr.v1.ReadyRequest", { wait: 1.9999999999 }), { wait: { seconds: "2", nanos: 0 } });
  assert.throws(() => build("dfsmr.v1.StartRequest", { machin: "job" }), /machin/);
});

test("errors are of their reason", () => {
  const error = ofItem({ code: 9, reason: "STALE_CLAIM", message: "too late" });
  assert.ok(error instanceof StaleClaim && error instanceof DfsmrError);
  assert.deepEqual([error.reason, error.message, error.code], ["STALE_CLAIM", "too late", status.FAILED_PRECONDITION]);
  const other = ofItem({ code: 9, reason: "OF_THE_FUTURE", message: "" });
  assert.equal(other.constructor, DfsmrError);
  assert.equal(other.reason, "OF_THE_FUTURE");
});

test("a subject has one handler", () => {
  const worker = new Worker("localhost:1").handles({ machine: "m", node: "n" }, () => "ok");
  assert.throws(() => worker.handles({ machine: "m", node: "n" }, () => "ok"), TypeError);
  assert.throws(() => new Worker("localhost:1", { jobs: 0 }), RangeError);
});

const MANUAL = "{id: m, nodes: {a: {manual: true, start: true, transitions: {ok: b}}, b: {final: true}}}";

test("all kinds of calls", async () => {
  const server = await testing.server();
  const client = new Client(`127.0.0.1:1,${server.address}`, { namespace: "x" });
  try {
    await client.define(MANUAL);
    await assert.rejects(client.check("{id: m, nodes: {}}"), (error: unknown) =>
      error instanceof BadMachine && error.diagnostics[0]?.line === 1);
    assert.equal((await client.start("m", { id: "i", params: { a: 1 } })).created, true);
    const batch = await client.startBatch(["i0", "i1", "i2"].map((id) => ({ machine: "m", id })));
    assert.deepEqual(batch.map((it) => it.started?.instance?.namespace), ["x", "x", "x"]);
    const ids: string[] = [];
    for await (const { id } of client.list({ machine: "m", pageSize: 2 })) ids.push(id);
    assert.deepEqual(ids, ["i", "i0", "i1", "i2"]);
    assert.equal((await client.pause("i")).state, "PAUSED");
    await client.resume("i");
    await client.transition("i", "ok");
    assert.equal((await client.wait("i", { timeout: 5 })).result, "SUCCESS");
    assert.equal((await client.cancel("i0", { mode: "FORCE" })).result, "CANCELLED");
    await assert.rejects(client.wait("i1", { timeout: 0.1 }), /has not stopped/);
    await assert.rejects(client.get("none"), NoSuchInstance);
    assert.equal((await client.setLimit("db", { max: 3 })).max, 3);
    const history: string[] = [];
    for await (const { visit } of client.history("i")) history.push(visit);
    assert.equal(history.at(-1), "2");
  } finally {
    client.close();
    await server.stop();
  }
});

test("methods that send a stream", async () => {
  const server = await testing.server();
  const client = new Client(server.address, { namespace: "x" });
  let stop = (): void => undefined;
  const stopped = new Promise<void>((resolve) => { stop = resolve; });
  async function* asked(): AsyncGenerator<object> {
    yield { open: { machine: "m", maxTasks: 1, worker: "w" } };
    await stopped;
  }
  try {
    await client.define(MANUAL.replace("manual: true, ", ""));
    await client.start("m", { id: "i" });
    for await (const { tasks: [task] } of client.work(asked())) {
      assert.deepEqual([task?.namespace, task?.instance], ["x", "i"]);
      break;
    }
    const header = { size: 3, digest: `sha256:${"0".repeat(64)}` };
    await assert.rejects(client.putPackage([{ header }, { data: Buffer.from("abc") }]),
      (error: unknown) => error instanceof DfsmrError && error.reason === "DIGEST_MISMATCH");
    await assert.rejects(client.putPackage((function* () { throw new Error("no file"); })()), /no file/);
    async function* exported(): AsyncGenerator<object> {
      yield { header: { name: "y" } };
      for await (const item of client.exportNamespace("x")) yield { item };
    }
    assert.equal((await client.importNamespace(exported())).definitions, "1");
    assert.equal((await client.getMachine("m", { namespace: "y" })).id, "m");
    assert.equal((await client.countInstances({ pageToken: "" })).total, "1");
  } finally {
    stop();
    client.close();
    await server.stop();
  }
});

test("requests in requests are of the client's namespace", async () => {
  const server = await testing.server();
  const client = new Client(server.address, { namespace: "x" });
  try {
    await client.define(MANUAL.replace("manual: true, ", ""));
    await client.start("m", { id: "i" });
    const { tasks } = await client.report([], { next: { machine: "m", maxTasks: 1 } });
    assert.deepEqual(tasks.map((task) => task.namespace), ["x"]);
    const hasty = new Client(server.address, { timeout: 0.3 });
    assert.deepEqual(await hasty.ready({ machine: "m", wait: 0.6 }), []);
    hasty.close();
    for await (const { instance } of client.watch([{ key: "i", instance: { id: "i" } }])) {
      assert.equal(instance?.namespace, "x");
      break;
    }
  } finally {
    client.close();
    await server.stop();
  }
});

test("each method of the services is there", () => {
  for (const service of Object.values(services)) {
    for (const name of Object.keys(service)) {
      assert.equal(typeof Reflect.get(Client.prototype, name[0]?.toLowerCase() + name.slice(1)), "function", name);
    }
  }
});

test("changes go on after the server was away", async () => {
  const server = await testing.server();
  const client = new Client(server.address);
  try {
    await client.define("{id: m, nodes: {a: {final: true, start: true}}}");
    await client.start("m", { id: "one" });
    const changes = client.changes({ after: "0", follow: true, kinds: ["STARTED"] });
    assert.equal((await changes.next()).value?.instance, "one");
    assert.ok(!["", "0"].includes(changes.cursor));
    await server.kill();
    await server.start();
    for (let tries = 0; ; ++tries) {
      try {
        await client.start("m", { id: "two" });
        break;
      } catch (error) {
        if (!(error instanceof DfsmrError && error.code === status.UNAVAILABLE) || tries > 100) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
    assert.equal((await changes.next()).value?.instance, "two");
    changes.close();
    assert.equal((await changes.next()).done, true);
  } finally {
    client.close();
    await server.stop();
  }
});
