// For tests of handlers: a server of their own, and tasks without any.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import { Client, sleep } from "./client";
import type * as m from "./messages";
import { Task, type News } from "./task";
import { toJson, type Json } from "./values";

/** A task for a handler; what the handler tells is in `progressed`. */
export function task<Params = unknown>(params: Json = {}, fields: Partial<m.Task> = {}): Task<Params> & { progressed: News[] } {
  const message: m.Task = {
    namespace: "default", instance: "instance-1", machine: "machine", version: 1, node: "node", visit: "1", attempt: 1,
    claim: "claim-1", deadline: null, instanceParams: toJson(params), nodeParams: "", action: "machine.node", queue: "",
    event: "", eventData: "", phase: "", middleware: [], package: null, checkpoint: "", runTimeout: null, dryRun: false,
    beginBy: null, tries: 0, triesLimit: 0, traceparent: "", ...fields,
  };
  const progressed: News[] = [];
  const made = new Task<Params>(message, (news) => {
    progressed.push(news);
    return Promise.resolve();
  });
  return Object.assign(made, { progressed });
}

/** A dsrv on a folder of its own and a free port. */
export class Server {
  readonly folder = fs.mkdtempSync(path.join(os.tmpdir(), "dfsmr-"));
  private process?: ChildProcess;

  constructor(private readonly program: string, readonly address: string, private readonly flags: string[]) {}

  /** Again, after `kill`: on the same folder and port. */
  async start(): Promise<void> {
    const log = fs.openSync(path.join(this.folder, "log"), "a");
    this.process = spawn(this.program, ["--addr", this.address, "--data", path.join(this.folder, "data"), ...this.flags],
      { stdio: ["ignore", log, log] });
    fs.closeSync(log);
    const client = new Client(this.address, { timeout: 1 });
    try {
      for (const end = Date.now() + 20_000; ; await sleep(20)) {
        try {
          await client.getClock();
          return;
        } catch (error) {
          if (Date.now() > end || this.process.exitCode !== null) {
            throw new Error(`dsrv does not serve: ${String(error)}\n${fs.readFileSync(path.join(this.folder, "log"), "utf8")}`);
          }
        }
      }
    } finally {
      client.close();
    }
  }

  /** kill -9. */
  kill(): Promise<void> {
    return this.end("SIGKILL");
  }

  /** And deletes its folder. */
  async stop(): Promise<void> {
    await this.end("SIGTERM");
    fs.rmSync(this.folder, { recursive: true, force: true });
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    const process = this.process;
    if (!process || process.exitCode !== null || process.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => process.once("exit", () => resolve()));
    process.kill(signal);
    await ended;
  }
}

/** Starts the dsrv that `binary` or DFSMR_DSRV names, else the one on PATH. */
export async function server(...flags: string[]): Promise<Server> {
  const program = process.env["DFSMR_DSRV"] ?? execFileSync("sh", ["-c", "command -v dsrv"], { encoding: "utf8" }).trim();
  const port = await new Promise<number>((resolve) => {
    const it = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = it.address() as net.AddressInfo;
      it.close(() => resolve(port));
    });
  });
  const made = new Server(program, `127.0.0.1:${port}`, flags);
  await made.start();
  return made;
}
