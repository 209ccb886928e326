// The stream of a worker: what came, what goes, and what is in hand.
import { randomBytes } from "node:crypto";
import { status, type ClientDuplexStream, type Client as GrpcClient, type ServiceError } from "@grpc/grpc-js";
import { methodOf, type Channels } from "./channel";
import { around } from "./client";
import { DfsmrError, StaleClaim, isAgain, ofCall, ofItem } from "./errors";
import type * as m from "./messages";
import { Task, errorReport, reportOf, type News, type Result } from "./task";
import { toDate, type Json, type Moment } from "./values";
import { checkedOpen, checkedReport, readResponse, writeRequest, type ReadItem, type ReadResponse, type ReadResult,
  type ReadTask } from "./work";
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
  timedOut = false;            // its handler is to end, since it has run for too long
  endsAt = 0;                  // when it will have; 0: nobody has looked yet
  report?: m.TransitionRequestInput;
  size = 0;                    // of the report
  at = 0;                      // where InHand has it
  extendEvery = 0;
  extendAt = 0;                // 0: nobody has looked yet; Infinity: never
  resendAt = Infinity;
  // What the next extension tells, and who waits for its answer.
  progress = 0;
  checkpoint = "";
  note = "";
  waiting: Waiter[] = [];

  constructor(readonly message: ReadTask, readonly since: number, told: (held: Held, news: News) => Promise<void>) {
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
    return this.message.deadline === null;
  }
}

/** Claims in hand. Where they come and go by the thousand a Map is no place for them: V8 keeps its
 * former tables, and all that was in them, until it collects all of its garbage. */
class InHand {
  readonly all: Held[] = [];

  get size(): number {
    return this.all.length;
  }

  add(held: Held): void {
    held.at = this.all.push(held) - 1;
  }

  delete(held: Held): void {
    const last = this.all.pop();
    if (!last || last === held) return;
    this.all[held.at] = last;
    last.at = held.at;
  }

  of(claims: string[]): Held[] {
    const wanted = new Set(claims);
    return this.all.filter(({ message }) => wanted.has(message.claim));
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
  handler: (message: ReadTask) => Handler | undefined;
}

type WorkStream = ClientDuplexStream<object, ReadResponse>;

export class Loop {
  private readonly session = randomBytes(16).toString("hex");
  private readonly held = new InHand();
  private reports: Held[] = [];                 // to be sent
  private readonly extends = new Set<Held>();
  private returns: m.RelinquishRequestInput[] = [];
  private drain = false;
  private sentReports: Held[] = [];             // not answered yet
  private sentExtends: { held: Held; checkpoint: string; waiting: Waiter[] }[] = [];
  private stream?: WorkStream;
  private running = 0;                          // handlers whose tasks are in hand
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
      for (const held of [...this.held.all]) {
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
    for (const held of [...this.held.all]) {
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
      const stream: WorkStream = client.makeBidiStreamRequest(methodOf("RunnerService", "Work").path, writeRequest,
        readResponse, channels.metadata());
      this.stream = stream;
      this.full = false;
      this.takeUpAgain();
      stream.write({ open, ...this.fill() });
      await new Promise<void>((resolve, reject) => {
        stream.on("data", (response: ReadResponse) => {
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
  private async prepare(client: GrpcClient): Promise<object> {
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
    return checkedOpen({ ...filter, session: this.session });
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
    for (const held of this.held.all) this.extends.add(held);
    this.drain = this.stopping;
  }

  /** After what this turn of the event loop brings, so that one message tells it all. */
  private flushSoon(): void {
    if (this.flushing) return;
    this.flushing = true;
    setImmediate(() => {
      this.flushing = false;
      this.flush();
    });
  }

  private flush(): void {
    while (this.stream && !this.full && (this.reports.length > 0 || this.extends.size > 0 || this.returns.length > 0 || this.drain)) {
      this.full = !this.stream.write(this.fill());
    }
    if (this.closing && !this.full) this.stream?.end();
  }

  /** Moves as much as a message takes from what is to be sent to what was. */
  private fill(): object {
    const transitions: object[] = [], extended: object[] = [];
    let room = BYTES, taken = 0;
    for (const held of this.reports) {
      if (transitions.length === ITEMS) break;
      if (held.state === "reported" && held.report) {
        if (held.size > room && room !== BYTES) break;
        room -= held.size;
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

  private hear(response: ReadResponse): void {
    this.answered(response.results);
    const sent = this.sentExtends.splice(0, response.extended.length);
    response.extended.forEach((item, n) => {
      const { held, waiting } = sent[n] as (typeof sent)[number];
      this.extended(held, waiting, item);
    });
    const unwanted = [...response.cancelledClaims, ...response.killedClaims];
    for (const held of unwanted.length > 0 ? this.held.of(unwanted) : []) {
      held.finishable = response.finishableClaims.includes(held.message.claim);
      this.cancel(held);
    }
    if (response.tasks.length > 0) this.begin(response.tasks);
    if (this.running === 0) this.flush();  // nothing more is to come
  }

  private begin(messages: ReadTask[]): void {
    const { count, logger, handler: handlerOf } = this.options;
    const now = Date.now();
    this.lookAt(now + SOONEST);
    count("tasks", messages.length);
    for (const message of messages) {
      const held = new Held(message, now, this.told);
      this.held.add(held);
      this.running += 1;
      const handler = handlerOf(message);
      if (handler) {
        this.handle(held, handler);
      } else {
        logger.error(`no handler for ${message.machine}/${message.node} (action ${message.action}): given back`);
        this.forget(held);
        this.returnIt(held, "the worker has no handler for it", true);
      }
    }
  }

  /** The next extension is at a third of what is left. */
  private span(held: Held, deadline: Moment | null, now: number): void {
    if (!deadline) {
      held.extendAt = Infinity;
      return;
    }
    const left = this.virtual ? 3000 : toDate(deadline).getTime() - now - this.offset;
    held.extendEvery = Math.max(left / 3, SOONEST);
    held.extendAt = now + held.extendEvery;
  }

  /** One timer for all: most tasks are done before anybody looks at their deadline. */
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
    for (const held of this.held.all) {
      if (held.extendAt === 0) this.span(held, held.message.deadline, held.since);
      if (held.endsAt === 0) held.endsAt = held.message.runTimeout ? held.since + toDate(held.message.runTimeout).getTime() : Infinity;
      if (held.endsAt <= now) this.timeOut(held);
      if (held.resendAt <= now) {
        held.resendAt = Infinity;
        this.reports.push(held);
      }
      if (held.extendAt <= now) {
        held.extendAt = now + held.extendEvery;
        this.extends.add(held);
      }
      next = Math.min(next, held.extendAt, held.resendAt, held.endsAt);
    }
    this.lookAt(next);
    this.flushSoon();
  }

  /** Tells its handler to end, whatever it returns then. Until it has, its claim is kept. */
  private timeOut(held: Held): void {
    held.endsAt = Infinity;
    if (held.state !== "running" || held.cancelled) return;
    const { machine, node, instance } = held.task;
    this.options.logger.info(`${machine}/${node} of ${instance} has run for too long`);
    held.timedOut = true;
    held.cancel();
  }

  private answered(results: ReadResult[]): void {
    let reported = 0;
    this.sentReports.splice(0, results.length).forEach((held, n) => {
      const error = results[n]?.error;
      if (held.state !== "reported") return;
      if (error) return this.refused(held, error);
      reported += 1;
      this.forget(held);
    });
    if (reported > 0) this.options.count("reported", reported);
  }

  private refused(held: Held, error: m.ItemError): void {
    if (error.code === status.UNAVAILABLE || error.code === status.RESOURCE_EXHAUSTED) {
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

  private extended(held: Held, waiting: Waiter[], item: ReadItem): void {
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
    if (item.deadline) {
      this.span(held, item.deadline, Date.now());
      this.lookAt(held.extendAt);
    }
    if (item.cancelRequested || item.killRequested) this.cancel(held);
  }

  /** Aborts its handler, whose end then gives it back. */
  private cancel(held: Held): void {
    if (held.state !== "running" || (held.cancelled && !held.timedOut)) return;
    this.options.count("cancelled", 1);
    held.timedOut = false;
    held.cancel();
  }

  // What handlers say.

  /** What its handler does at once takes no promise. */
  private handle(held: Held, handler: Handler): void {
    let value: Result | Promise<Result>;
    try {
      value = handler(held.task, held);
    } catch (error) {
      return this.failed(held, error);
    }
    if (value instanceof Promise) value.then((it) => this.ended(held, it), (error: unknown) => this.failed(held, error));
    else this.ended(held, value);
  }

  private ended(held: Held, value: Result): void {
    let report: m.TransitionRequestInput;
    try {
      report = typeof value === "string" ? { transition: value } : checkedReport(reportOf(value));
    } catch (error) {
      return this.noResult(held, error);
    }
    this.report(held, report);
  }

  private failed(held: Held, error: unknown): void {
    const { machine, node, instance } = held.task;
    if (!held.cancelled) this.options.logger.info(`${machine}/${node} of ${instance} failed: ${String(error)}`);
    this.report(held, checkedReport(errorReport(error, this.options.tracebacks)));
  }

  private report(held: Held, report: m.TransitionRequestInput): void {
    if (held.state !== "running") return;
    // Of work at most once it is better known how it went than not.
    if (held.timedOut) {
      report = checkedReport(tooLong(held.message));
    } else if (held.cancelled && !(held.finishable && held.atMostOnce)) {
      this.options.count("dropped", 1);
      return this.giveBack(held, "cancelled");
    }
    report.instance = held.message.instance;
    report.claim = held.message.claim;
    held.report = report;
    held.size = sizeOf(report);
    if (held.size > LARGEST) {
      this.options.logger.error(`a report of ${report.instance} is larger than a message`);
      return this.giveBack(held, "its report was too large", true);
    }
    held.state = "reported";
    this.running -= 1;
    this.reports.push(held);
    this.flushSoon();
  }

  /** The task is given back. */
  private noResult(held: Held, error: unknown): void {
    if (held.timedOut) return this.report(held, {});
    const { machine, node, instance } = held.task;
    void this.transitions(held.task).then((known) => {
      this.options.logger.error(`${machine}/${node} of ${instance}: ${String(error)}; its transitions are ${known}`);
      this.giveBack(held, `not a result: ${String(error)}`, true);
    });
  }

  private readonly told = (held: Held, { progress, checkpoint, note }: News): Promise<void> => {
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
  };

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
    if (held.state === "running") this.running -= 1;
    held.state = "over";
    this.held.delete(held);
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

function tooLong({ runTimeout }: ReadTask): m.TransitionRequestInput {
  const seconds = runTimeout ? toDate(runTimeout).getTime() / 1000 : 0;
  return { transition: "error", error: `it ran for longer than ${seconds} s`, errorKind: "timeout" };
}

/** Nearly, in bytes. */
function sizeOf(report: m.TransitionRequestInput): number {
  let size = 200 + bytesOf(report.transition) + bytesOf(report.nodeParams) + bytesOf(report.output) +
    bytesOf(report.checkpoint) + bytesOf(report.error);
  for (const start of report.starts ?? []) size += 200 + JSON.stringify(start).length;
  for (const start of report.children ?? []) size += 200 + JSON.stringify(start).length;
  return size;
}

function bytesOf(text: Json | undefined): number {
  if (typeof text !== "string") return 0;
  return text.length < 10_000 ? text.length : Buffer.byteLength(text);
}
