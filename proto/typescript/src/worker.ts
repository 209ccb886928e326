// A worker: handlers, and who runs them.
import * as os from "node:os";
import { Channels, type ChannelOptions } from "./channel";
import { NoSuchMachine, NotAllowed } from "./errors";
import { Loop } from "./loop";
import type * as m from "./messages";
import { Fail, type Result, type Task } from "./task";
import { toDuration } from "./values";
import type { ReadTask } from "./work";

/** `signal` is aborted once the task is not to be worked on any more: then what is returned is dropped. */
export interface Context { signal: AbortSignal }
export type Handler<Params = unknown> = (task: Task<Params>, context: Context) => Result | Promise<Result>;
export type Middleware = (task: Task, context: Context, next: Handler) => Result | Promise<Result>;
/** A node, all nodes of a machine, or an action: NAME, all of NAME.*, or *. */
export type Subject = { machine: string; node?: string } | { action: string };

export interface Logger {
  info(message: string): void;
  error(message: string): void;
}

export interface WorkerOptions extends ChannelOptions {
  /** Tasks at once; default 1. */
  jobs?: number;
  /** Default: the host's with the pid. */
  name?: string;
  /** Takes only what waits in these. */
  queues?: string[];
  /** Also takes what asks for these. */
  capabilities?: string[];
  /** Seconds in which handlers may finish at the end; default 30. */
  grace?: number;
  /** By name, for tasks that ask for it. */
  middleware?: Record<string, Middleware>;
  /** Reports errors with their stack. */
  tracebacks?: boolean;
  /** Also takes tasks of dry runs. */
  dryRun?: boolean;
  /** Called with a counter's name and an amount. */
  count?: (name: string, amount: number) => void;
  /** Default: the console. */
  logger?: Logger;
}

/** Takes tasks on a stream, runs their handlers, and reports what these return. */
export class Worker {
  readonly jobs: number;
  readonly name: string;
  readonly namespace: string;
  private readonly handlers = new Map<string, { subject: Subject; handler: Handler }>();
  private readonly found = new Map<string, Handler | undefined>();  // by what a task has
  private readonly channels: Channels;
  private readonly loop: Loop;

  constructor(address?: string, private readonly options: WorkerOptions = {}) {
    this.jobs = options.jobs ?? 1;
    if (!(this.jobs >= 1 && this.jobs <= 10_000)) throw new RangeError(`jobs are from 1 to 10,000, not ${this.jobs}`);
    this.name = options.name || `${os.hostname()}-${process.pid}`;
    this.namespace = options.namespace || process.env["DFSMR_NAMESPACE"] || "";
    this.channels = new Channels(address, options);
    this.loop = new Loop({
      channels: this.channels, namespace: this.namespace, grace: options.grace ?? 30,
      tracebacks: options.tracebacks ?? false, count: options.count ?? ((): void => undefined),
      logger: options.logger ?? console,
      filter: (machine) => this.filter(machine), handler: (message) => this.handlerOf(message),
    });
  }

  handles<Params = unknown>(subject: Subject, handler: Handler<Params>): this {
    const key = keyOf(subject);
    if (this.handlers.has(key)) throw new TypeError(`${key} has a handler already`);
    this.handlers.set(key, { subject, handler: handler as Handler });
    this.found.clear();
    return this;
  }

  /** Works until SIGTERM, SIGINT or `stop`; a second one ends the grace. Rejects when the server
   * refuses the worker. */
  async run(): Promise<void> {
    if (this.handlers.size === 0) throw new TypeError("a worker without handlers: call handles");
    const stop = (): void => this.stop();
    process.on("SIGTERM", stop).on("SIGINT", stop);
    try {
      await this.loop.run();
    } finally {
      process.off("SIGTERM", stop).off("SIGINT", stop);
      this.channels.close();
    }
  }

  /** Takes no more, lets handlers finish for `grace` seconds, and has `run` resolve. */
  stop(): void {
    this.loop.stop();
  }

  /** What is asked for: with one handler exactly that, with several their actions. */
  private async filter(getMachine: (name: string) => Promise<m.Machine>): Promise<m.ReadyRequestInput> {
    const { queues, capabilities, dryRun } = this.options;
    const common = { namespace: this.namespace, worker: this.name, maxTasks: this.jobs, queues, capabilities, dryRun };
    const subjects = [...this.handlers.values()].map(({ subject }) => subject);
    const [only, ...others] = subjects;
    const keepFor = toDuration(30) as unknown as number;  // it is sent as it stands
    if (only && others.length === 0 && "machine" in only) {
      return { ...common, keepFor, machine: only.machine, node: only.node };
    }
    const wanted = new Set<string>();
    for (const subject of subjects) {
      const actions = "action" in subject ? [subject.action] : await actionsOf(subject, getMachine);
      for (const action of actions) wanted.add(action);
    }
    return { ...common, keepFor, actions: [...wanted].sort() };
  }

  /** In its middleware, outermost first. */
  private handlerOf({ machine, node, action, middleware }: ReadTask): Handler | undefined {
    const key = `${machine} ${node} ${action}`;
    let found = this.found.get(key);
    if (!found && !this.found.has(key)) this.found.set(key, found = this.find(machine, node, action));
    return found && middleware.reduceRight((next, name) => this.around(name, next), found);
  }

  /** By its node, its action, its machine. */
  private find(machine: string, node: string, action: string): Handler | undefined {
    const parts = action.split(".");
    const prefixes = parts.map((_, n) => ({ action: `${parts.slice(0, n).join(".")}.*` })).slice(1).reverse();
    const subjects: Subject[] = [{ machine, node }, { action }, ...prefixes, { action: "*" }, { machine }];
    return subjects.map((it) => this.handlers.get(keyOf(it))).find((it) => it)?.handler;
  }

  private around(name: string, next: Handler): Handler {
    const middleware = this.options.middleware?.[name];
    return (task, context) => {
      if (!middleware) throw new Fail(`this worker has no middleware "${name}"`);
      return middleware(task, context, next);
    };
  }
}

function keyOf(subject: Subject): string {
  return "action" in subject ? `action ${subject.action}` : `${subject.machine} ${subject.node ?? "*"}`;
}

/** Those of a node, or of all nodes of a machine; those they have by default where the machine is not
 * defined yet, or is not for this worker to see. */
async function actionsOf(subject: { machine: string; node?: string },
  getMachine: (name: string) => Promise<m.Machine>): Promise<string[]> {
  let nodes: m.Node[] = [];
  try {
    nodes = (await getMachine(subject.machine)).nodes;
  } catch (error) {
    if (!(error instanceof NoSuchMachine || error instanceof NotAllowed)) throw error;
  }
  const found = nodes.filter((node) => node.kind === "work" && node.action !== "" &&
    (subject.node === undefined || node.id === subject.node)).map((node) => node.action);
  return found.length > 0 ? found : [`${subject.machine}.${subject.node ?? "*"}`];
}
