// The conformance suite's worker, in TypeScript: as ../worker.py.
import * as fs from "node:fs";
import { Fail, Retry, Worker, type Handler, type Result, type Task } from "dfsmr";

interface Params { do?: string; seconds?: number }

const log = fs.openSync(process.argv[2] ?? "", "a");

function note(what: string, task: Task<unknown>): void {
  fs.writeSync(log, JSON.stringify([what, task.instance, task.visit, task.attempt]) + "\n");
}

function sleep(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new Error("aborted"));
    });
  });
}

const worker = new Worker(undefined, {
  jobs: Number(process.argv[3]), grace: 1, tokenFile: process.env["TOKEN_FILE"],
  count: (name) => { if (name === "reconnects") console.log("counted", name); },
  middleware: {
    audit: (task, context, next) => {
      note("audit", task);
      return next(task, context);
    },
  },
});

async function outcome(task: Task<Params>): Promise<Result> {
  switch (task.params.do) {
    case "name":
      return "other";
    case "output":
      return ["ok", `{"big":9007199254740993,"got":${/"got":\s*(\d+)/.exec(task.paramsText)?.[1]}}`];
    case "object":
      return {
        transition: "ok", output: { done: true }, params: { from: task.instance },
        start: [{ machine: "job", id: `${task.instance}-more`, params: { do: "ok" }, labels: { by: "object" } }],
      };
    case "echo":
      return ["ok", {
        params: task.params, input: task.input, attempt: task.attempt, visit: task.visit, phase: task.phase,
        event: task.event, event_data: task.eventData, dry_run: task.dryRun, node: task.node, machine: task.machine,
        instance: task.instance, action: task.action, deadline: task.deadline !== undefined,
        checkpoint: task.checkpoint ?? null,
      }];
    case "raise":
      throw new Error("boom");
    case "retry":
      throw new Retry("later", 0.2);
    case "fail":
      throw new Fail("never");
    case "nosuch":
      return task.attempt === 1 ? "nosuch" : "ok";
    case "nojson":
      return task.attempt === 1 ? ["ok", { it: () => 1 }] : "ok";
    case "checkpoint":
      if (task.checkpoint === undefined) {
        await task.progress(0.5, { checkpoint: { offset: 10 }, note: "half of it" });
        process.exit(9);
      }
      return ["ok", { checkpoint: task.checkpoint }];
  }
  return undefined;
}

const handle: Handler<Params> = async (task, { signal }) => {
  note("begin", task);
  if (task.params.do === "sleep") {
    try {
      await sleep(task.params.seconds ?? 0, signal);
    } catch {
      note("aborted", task);
      return ["ok", { dropped: true }];
    }
  }
  return outcome(task);
};

const passOn: Handler = async (task, { signal }) => {
  note("begin", task);
  await sleep(Math.random() * 0.02, signal);
  const choices: Record<string, string[]> = { crawl: ["ok", "ok", "error"], charge: ["ok", "error"], reconcile: ["paid"] };
  const mine = choices[task.node] ?? ["ok"];
  return mine[Math.floor(Math.random() * mine.length)];
};

for (const machine of ["job", "async", "once", "hasty", "timed", "timed_async", "strict"]) worker.handles({ machine, node: "work" }, handle);
worker.handles({ action: "try.*" }, handle);
worker.handles({ machine: "crawler", node: "crawl" }, passOn);
for (const node of ["reserve", "charge", "reconcile", "ship", "release"]) worker.handles({ machine: "order", node }, passOn);
worker.handles({ machine: "notification", node: "send" }, passOn);
worker.handles({ action: "sum.hash" }, (task) => {
  note("begin", task);
  return ["ok", { sha256: "0", bytes: 1 }];
});
worker.run().catch((error: Error & { reason?: string }) => {
  console.error(error.reason, error.message);
  process.exit(1);
});
