// The stream of a worker: what came, what goes, and what is in hand.
import { randomBytes } from "node:crypto";
import { status, type ClientDuplexStream, type Client as GrpcClient, type ServiceError } from "@grpc/grpc-js";
import { methodOf, type Channels } from "./channel";
import { around } from "./client";
import { DfsmrError, StaleClaim, isAgain, ofCall, ofItem } from "./errors";
import type * as m from "./messages";
import { Task, errorReport, reportOf, type News, type Result } from "./task";
import { toDate } from "./values";
import type { Handler, Logger } from "./worker";

const ITEMS = 900;           // of a message; the server takes 1,000 of each kind
const BYTES = 3_000_000;     // of a message; the server takes 4 MiB
const LARGEST = 4_000_000;   // of a report
const SOONEST = 20;          // milliseconds between two extensions of a claim
const AGAIN = 1000;          // until a report that the server had no room for is sent again
const CALL = 5000;           // for a call beside the stream
const LOST = new Set(["STALE_CLAIM", "NO_SUCH_INSTANCE", "INSTANCE_STOPPED", "SUPERSEDED_VERSION"]);

interface Waiter { resolve(): void; reject(error: Error): void }

/** A claim in hand, until its report is answered or it goes back. */
class Held {
  readonly task: Task;
  cancelled = false;
  state: "running" | "reported" | "over" = "running";
  finishable = false;          // cancelled, but a report of it counts
  report?: m.TransitionRequestInput;
  extendEvery = 0;             // 0: never
  extendAt = Infinity;
  resendAt = Infinity;
  // What the next extension tells, and who waits for its answer.
  progress = 0;
  checkpoint = "";
  note = "";
  waiting: Waiter[] = [];

  constructor(message: m.Task, told: (held: Held, news: News) => Promise<void>) {
    this.task = new Task(message, (news) => told(this, news));
  }

  private controller?: AbortController;

  /** For the handler; made when it asks for it. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.cancelled) this.controller.abort();
    return this.controller.signal;
  }

  cancel(): void {
    this.cancelled = true;
    this.controller?.abort();
  }

  get atMostOnce(): boolean {
    return this.task.message.deadline === null;
  }
}

export interface LoopOptions {
  channels: Channels;
  namespace: string;
  grace: number;
  tracebacks: boolean;
  count: (name: string, amount: number) => void;
  logger: Logger;
  filter: (getMachine: (name: string) => Promise<m.Machine>) => Promise<m.ReadyRequestInput>;
  handler: (task: Task) => Handler | undefined;
}

type WorkStream = ClientDuplexStream<object, m.WorkResponse>;

export class Loop {
  private readonly session = randomBytes(16).toString("hex");
  private readonly held = new Map<string, Held>();
  private reports: Held[] = [];                 // to be sent
  private readonly extends = new Set<Held>();
  private returns: m.RelinquishRequestInput[] = [];
  private drain = false;
  private sentReports: Held[] = [];             // not answered yet
  private sentExtends: { held: Held; checkpoint: string; waiting: Waiter[] }[] = [];
  private stream?: WorkStream;
  private full = false;                         // the stream takes no more for now
  private flushing = false;
  private stopping = false;
  private closing = false;                      // the grace is over
  private graceEnd?: NodeJS.Timeout;
  private timer?: NodeJS.Timeout;               // of the extension or report that is due next
  private timerAt = Infinity;
  private wakeUp?: () => void;                  // from the pause between two streams
  private offset = 0;                           // the server's clock minus ours
  private virtual = false;                      // a clock that goes by order only

  constructor(private readonly options: LoopOptions) {}

  async run(): Promise<void> {
    try {
      for (let pause = 100; ;) {
        const heard = await this.oneStream();
        if (this.closing || (this.stopping && this.held.size === 0)) return;
        if (heard) pause = 100;
        await new Promise<void>((resolve) => {
          this.wakeUp = resolve;
          setTimeout(resolve, around(pause));
        });
        pause = Math.min(pause * 2, 10_000);
        this.options.count("reconnects", 1);
      }
    } finally {
      clearTimeout(this.graceEnd);
      clearTimeout(this.timer);
      for (const held of [...this.held.values()]) {
        this.cancel(held);
        this.forget(held);
      }
    }
  }

  stop(): void {
    if (this.stopping) return this.giveUp();
    this.stopping = this.drain = true;
    this.graceEnd = setTimeout(() => this.giveUp(), this.options.grace * 1000);
    if (this.held.size === 0) this.wakeUp?.();
    this.flushSoon();
  }

  /** The grace is over. */
  private giveUp(): void {
    if (this.closing) return;
    for (const held of [...this.held.values()]) {
      this.cancel(held);
      if (held.state !== "reported") this.giveBack(held, "the worker stops");
    }
    this.closing = true;
    this.wakeUp?.();
    this.flushSoon();
    setTimeout(() => this.stream?.cancel(), 5000).unref();
  }

  // The stream.

  /** A stream, to its end. Whether anything was heard; rejects where it is no use to try again. */
  private async oneStream(): Promise<boolean> {
    const { channels, logger } = this.options;
    const client = channels.current;
    let heard = false;
    try {
      const open = await this.prepare(client);
      if (this.closing || (this.stopping && this.held.size === 0)) return false;
      const { path, requestSerialize, responseDeserialize } = methodOf("RunnerService", "Work");
      const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize,
        channels.metadata()) as unknown as WorkStream;
      this.stream = stream;
      this.full = false;
      this.takeUpAgain();
      stream.write({ open, ...this.fill() });
      await new Promise<void>((resolve, reject) => {
        stream.on("data", (response: m.WorkResponse) => {
          heard = true;
          this.hear(response);
        }).on("drain", () => {
          this.full = false;
          this.flushSoon();
        }).on("error", reject).on("end", resolve);
        this.flushSoon();
      });
    } catch (error) {
      const refused = ofCall(error);
      if (!isAgain(refused)) throw refused;
      if (!this.stopping || this.held.size > 0) logger.info(`the stream broke: ${refused.message}`);
      channels.goOn(client);
    } finally {
      this.stream = undefined;
    }
    return heard;
  }

  private call<Reply>(client: GrpcClient, service: string, method: string, request: object): Promise<Reply> {
    const { path, requestSerialize, responseDeserialize } = methodOf(service, method);
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, this.options.channels.metadata(),
        { deadline: Date.now() + CALL },
        (error: ServiceError | null, reply?: object) => (error ? reject(ofCall(error)) : resolve(reply as Reply)));
    });
  }

  /** What the stream asks for. Asks for the clock, which deadlines are told by; not every token may. */
  private async prepare(client: GrpcClient): Promise<m.ReadyRequestInput> {
    try {
      const clock = await this.call<m.Clock>(client, "ScheduleService", "GetClock", {});
      this.offset = clock.time ? toDate(clock.time).getTime() - Date.now() : 0;
      this.virtual = clock.isVirtual;
    } catch (error) {
      const { code } = error as DfsmrError;
      if (code === status.UNAVAILABLE || code === status.DEADLINE_EXCEEDED) throw error;
    }
    const namespace = this.options.namespace;
    const filter = await this.options.filter((id) => this.call(client, "RunnerService", "GetMachine", { namespace, id }));
    return { ...filter, session: this.session };
  }

  /** On a new stream all that is in hand is extended, and what was not answered sent again. */
  private takeUpAgain(): void {
    this.reports.push(...this.sentReports.filter((held) => held.state === "reported"));
    for (const { held, checkpoint, waiting } of this.sentExtends) {
      held.checkpoint ||= checkpoint;
      held.waiting.unshift(...waiting);
    }
    this.sentReports = [];
    this.sentExtends = [];
    this.extends.clear();
    for (const held of this.held.values()) this.extends.add(held);
    this.drain = this.stopping;
  }

  /** After what this turn of the event loop brings, so that one message tells it all. */
  private flushSoon(): void {
    if (this.flushing) return;
    this.flushing = true;
    setImmediate(() => {
      this.flushing = false;
      while (this.stream && !this.full && (this.reports.length > 0 || this.extends.size > 0 || this.returns.length > 0 || this.drain)) {
        this.full = !this.stream.write(this.fill());
      }
      if (this.closing && !this.full) this.stream?.end();
    });
  }

  /** Moves as much as a message takes from what is to be sent to what was. */
  private fill(): object {
    const transitions: object[] = [], extended: object[] = [];
    let room = BYTES, taken = 0;
    for (const held of this.reports) {
      if (transitions.length === ITEMS) break;
      if (held.state === "reported" && held.report) {
        const size = sizeOf(held.report);
        if (size > room && room !== BYTES) break;
        room -= size;
        transitions.push(held.report);
        this.sentReports.push(held);
      }
      taken += 1;
    }
    this.reports.splice(0, taken);
    for (const held of this.extends) {
      if (extended.length === ITEMS || held.checkpoint.length > room) break;
      this.extends.delete(held);
      if (held.state === "over") continue;
      const { task: { instance, claim }, progress, checkpoint, note, waiting } = held;
      room -= checkpoint.length;
      extended.push({ instance, claim, progress, checkpoint, note });
      this.sentExtends.push({ held, checkpoint, waiting });
      held.checkpoint = "";
      held.waiting = [];
    }
    const drain = this.drain;
    this.drain = false;
    return { transitions, extends: extended, relinquishes: this.returns.splice(0, ITEMS), drain };
  }

  // What is heard.

  private hear(response: m.WorkResponse): void {
    const reports = this.sentReports.splice(0, response.results.length);
    response.results.forEach((result, n) => this.answered(reports[n] as Held, result));
    const sent = this.sentExtends.splice(0, response.extended.length);
    response.extended.forEach((item, n) => {
      const { held, waiting } = sent[n] as (typeof sent)[number];
      this.extended(held, waiting, item);
    });
    for (const claim of [...response.cancelledClaims, ...response.killedClaims]) {
      const held = this.held.get(claim);
      if (!held) continue;
      held.finishable = response.finishableClaims.includes(claim);
      this.cancel(held);
    }
    for (const message of response.tasks) this.begin(message);
  }

  private begin(message: m.Task): void {
    const { count, logger, handler: handlerOf } = this.options;
    const held = new Held(message, (it, news) => this.told(it, news));
    this.held.set(message.claim, held);
    if (message.deadline) this.span(held, message.deadline);
    count("tasks", 1);
    const handler = handlerOf(held.task);
    if (!handler) {
      logger.error(`no handler for ${message.machine}/${message.node} (action ${message.action}): given back`);
      this.forget(held);
      this.returnIt(held, "the worker has no handler for it", true);
      return;
    }
    void this.handle(held, handler);
  }

  /** The next extension is at a third of what is left. */
  private span(held: Held, deadline: m.Task["deadline"] & object): void {
    const left = this.virtual ? 3000 : toDate(deadline).getTime() - Date.now() - this.offset;
    held.extendEvery = Math.max(left / 3, SOONEST);
    held.extendAt = Date.now() + held.extendEvery;
    this.lookAt(held.extendAt);
  }

  /** One timer for all: most tasks are done long before theirs would be due. */
  private lookAt(at: number): void {
    if (at >= this.timerAt) return;
    clearTimeout(this.timer);
    this.timerAt = at;
    this.timer = setTimeout(() => this.tend(), Math.max(at - Date.now(), 1));
  }

  /** Does what is due. */
  private tend(): void {
    const now = Date.now();
    let next = (this.timerAt = Infinity);
    for (const held of this.held.values()) {
      if (held.resendAt <= now) {
        held.resendAt = Infinity;
        this.reports.push(held);
      }
      if (held.extendAt <= now) {
        held.extendAt = now + held.extendEvery;
        this.extends.add(held);
      }
      next = Math.min(next, held.extendAt, held.resendAt);
    }
    this.lookAt(next);
    this.flushSoon();
  }

  private answered(held: Held, result: m.TransitionResult): void {
    const { error } = result;
    if (held.state !== "reported") return;
    if (!error) {
      this.options.count("reported", 1);
      this.forget(held);
    } else if (error.code === status.UNAVAILABLE || error.code === status.RESOURCE_EXHAUSTED) {
      held.resendAt = Date.now() + AGAIN;
      this.lookAt(held.resendAt);
    } else if (LOST.has(error.reason)) {
      this.options.count("stale", 1);
      this.forget(held);
    } else {  // No such transition: the message lists those that there are.
      this.options.logger.error(`the report "${held.report?.transition}" of ${held.task.instance} was refused: ${error.message}`);
      this.giveBack(held, held.report?.error || error.message, true);
    }
  }

  private extended(held: Held, waiting: Waiter[], item: m.ExtendResponseItem): void {
    const { error } = item;
    for (const waiter of waiting) {
      if (error) waiter.reject(ofItem(error));
      else waiter.resolve();
    }
    if (held.state === "over") return;
    if (error) {
      if (LOST.has(error.reason)) this.cancel(held);
      return;
    }
    if (item.deadline) this.span(held, item.deadline);
    if (item.cancelRequested || item.killRequested) this.cancel(held);
  }

  /** Aborts its handler, whose end then gives it back. */
  private cancel(held: Held): void {
    if (held.state !== "running" || held.cancelled) return;
    this.options.count("cancelled", 1);
    held.cancel();
  }

  // What handlers say.

  private async handle(held: Held, handler: Handler): Promise<void> {
    const { task } = held;
    let report: m.TransitionRequestInput;
    try {
      let value = handler(task, held);
      if (value instanceof Promise) value = await value;
      const made = this.checked(held, value);
      if (!made) return;
      report = made;
    } catch (error) {
      if (!held.cancelled) this.options.logger.info(`${task.machine}/${task.node} of ${task.instance} failed: ${String(error)}`);
      report = errorReport(error, this.options.tracebacks);
    }
    if (held.state !== "running") return;
    // Of work at most once it is better known how it went than not.
    if (held.cancelled && !(held.finishable && held.atMostOnce)) {
      this.options.count("dropped", 1);
      return this.giveBack(held, "cancelled");
    }
    held.report = { ...report, instance: task.instance, claim: task.claim };
    if (sizeOf(held.report) > LARGEST) {
      this.options.logger.error(`a report of ${task.instance} is larger than a message`);
      return this.giveBack(held, "its report was too large", true);
    }
    held.state = "reported";
    this.reports.push(held);
    this.flushSoon();
  }

  /** A report of what a handler returned; where that is no result, the task is given back. */
  private checked(held: Held, value: Result): m.TransitionRequestInput | undefined {
    try {
      return reportOf(value);
    } catch (error) {
      const { machine, node, instance } = held.task;
      void this.transitions(held.task).then((known) => {
        this.options.logger.error(`${machine}/${node} of ${instance}: ${String(error)}; its transitions are ${known}`);
        this.giveBack(held, `not a result: ${String(error)}`, true);
      });
      return undefined;
    }
  }

  private told(held: Held, { progress, checkpoint, note }: News): Promise<void> {
    if (held.state === "over" || held.cancelled) {
      return Promise.reject(new StaleClaim(`${held.task.instance} is not in hand any more`));
    }
    held.progress = progress ?? held.progress;
    held.checkpoint = checkpoint ?? held.checkpoint;
    held.note = note?.slice(0, 256) ?? held.note;
    this.extends.add(held);
    this.flushSoon();
    const answer = new Promise<void>((resolve, reject) => held.waiting.push({ resolve, reject }));
    answer.catch(() => undefined);  // whoever does not wait for it learns by the signal
    return answer;
  }

  /** What runs at most once has begun, and stays. `refused`: this worker would only fail again, so for
   * a minute it is not offered that node. */
  private giveBack(held: Held, reason: string, refused = false): void {
    if (!this.forget(held)) return;
    if (held.atMostOnce) {
      this.options.logger.error(`${held.task.instance} runs at most once and cannot be given back (${reason}): an operator has to look at it`);
      // The server counts it as in hand until the stream is another one.
      if (!this.stopping) this.stream?.cancel();
      return;
    }
    this.options.count("given_back", 1);
    this.returnIt(held, reason, refused);
  }

  private returnIt({ task: { namespace, instance, claim } }: Held, reason: string, refused: boolean): void {
    this.returns.push({ namespace, instance, claim, reason: reason.slice(0, 1000), refused });
    this.flushSoon();
  }

  private forget(held: Held): boolean {
    if (held.state === "over") return false;
    held.state = "over";
    this.held.delete(held.task.claim);
    for (const waiter of held.waiting) waiter.reject(new StaleClaim(`${held.task.instance} is not in hand any more`));
    held.waiting = [];
    if (this.stopping && this.held.size === 0) this.wakeUp?.();
    return true;
  }

  /** Those of a task's node, for a message. */
  private async transitions(task: Task): Promise<string> {
    try {
      const { namespace, instance: id, node } = task;
      const instance = await this.call<m.Instance>(this.options.channels.current, "RunnerService", "GetInstance",
        { namespace, id, withNodes: true });
      return instance.nodes.filter((it) => it.id === node)
        .flatMap((it) => it.transitions.map(({ transition }) => transition)).join(", ");
    } catch {
      return "not known";
    }
  }
}

/** Nearly, in bytes. */
function sizeOf(report: m.TransitionRequestInput): number {
  let size = 200;
  for (const text of [report.nodeParams, report.output, report.checkpoint, report.error]) {
    if (typeof text === "string") size += text.length < 10_000 ? text.length : Buffer.byteLength(text);
  }
  for (const start of [...(report.starts ?? []), ...(report.children ?? [])]) size += 200 + JSON.stringify(start).length;
  return size;
}
