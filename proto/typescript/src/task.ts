// What a handler is given, and what it may answer.
import type * as m from "./messages";
import { build, fromJson, toDate, toJson, type Json, type Seconds } from "./values";
import { wholeTask, type ReadTask } from "./work";

/** The transition `error`, to be tried again: `after` seconds, or as the node's policy says. */
export class Retry extends Error {
  constructor(text: string, readonly after?: Seconds, readonly kind = "") {
    super(text);
  }
}

/** The transition `error`, without any more tries. */
export class Fail extends Error {
  constructor(text: string, readonly kind = "") {
    super(text);
  }
}

export interface ResultObject {
  /** Default "ok". */
  transition?: string;
  /** For the next node. */
  params?: Json;
  /** Kept as this node's. */
  output?: Json;
  /** Instances that are started in the same commit. */
  start?: m.StartRequestInput[];
  checkpoint?: Json;
  /** Of a step that suspends. */
  wakeAfter?: Seconds;
  children?: m.StartRequestInput[];
  childrenConcurrency?: number;
}

/** Nothing is "ok"; else a transition's name, that with an output, or an object. */
export type Result = void | undefined | string | readonly [transition: string, output: Json] | ResultObject;

const KEYS = new Set(["transition", "params", "output", "start", "checkpoint", "wakeAfter", "children",
  "childrenConcurrency"]);

function objectOf(value: Result): ResultObject {
  if (value === undefined) return {};
  if (typeof value === "string") return { transition: value };
  if (Array.isArray(value) && value.length === 2) return { transition: value[0] as string, output: value[1] as Json };
  const wrong = typeof value !== "object" || value === null || Array.isArray(value)
    ? typeof value : Object.keys(value).find((key) => !KEYS.has(key));
  if (wrong) {
    throw new TypeError(`a handler returned no result (${wrong}): it is nothing, a transition, ` +
      "[transition, output], or an object with transition, output, params, start or checkpoint");
  }
  return value as ResultObject;
}

/** Throws where something is no JSON. */
export function reportOf(value: Result): m.TransitionRequestInput {
  const { transition = "ok", params, output, start, checkpoint, ...rest } = objectOf(value);
  const suspends = rest.wakeAfter !== undefined || rest.children || rest.childrenConcurrency;
  return {
    transition, nodeParams: toJson(params), output: toJson(output), checkpoint: toJson(checkpoint),
    ...(start || suspends ? build("dfsmr.v1.TransitionRequest", { starts: start, ...rest }) : {}),
  };
}

export function errorReport(error: unknown, tracebacks: boolean): m.TransitionRequestInput {
  const known = error instanceof Error;
  const text = known ? (tracebacks && error.stack) || error.message || error.name : String(error);
  return build("dfsmr.v1.TransitionRequest", {
    transition: "error", error: text.slice(-16_384),
    ...(error instanceof Fail ? { fatal: true, errorKind: error.kind } : {}),
    ...(error instanceof Retry ? { retryAfter: error.after, errorKind: error.kind } : {}),
  });
}

export interface News {
  progress?: number;
  checkpoint?: string;
  note?: string;
}

/** A visit of an instance to a node, in this worker's hands. */
export class Task<Params = unknown> {
  constructor(private readonly read: ReadTask, private readonly send: (news: News) => Promise<void>) {}

  /** All of it, as the server sent it. */
  get message(): m.Task { return (this.whole ??= wholeTask(this.read)); }

  get namespace(): string { return this.read.namespace; }
  get instance(): string { return this.read.instance; }
  get machine(): string { return this.read.machine; }
  get version(): number { return this.read.version; }
  get node(): string { return this.read.node; }
  get visit(): number { return Number(this.read.visit.toString()); }
  get attempt(): number { return this.read.attempt; }
  get claim(): string { return this.read.claim; }
  get action(): string { return this.read.action; }
  get queue(): string { return this.read.queue; }
  get event(): string { return this.read.event; }
  get phase(): string { return this.read.phase; }
  get dryRun(): boolean { return this.read.dryRun; }
  get tries(): number { return this.read.tries; }
  get triesLimit(): number { return this.read.triesLimit; }

  /** The instance's, as given at its start. Integers beyond 2^53 are exact in `paramsText` only. */
  get params(): Params { return this.parsed("instanceParams") as Params; }
  get paramsText(): string { return this.read.instanceParams || "{}"; }
  /** The node's or step's: given by the transition that led here, or by the plan. */
  get input(): unknown { return this.parsed("nodeParams"); }
  get inputText(): string { return this.read.nodeParams || "{}"; }
  get eventData(): unknown { return this.parsed("eventData"); }
  /** The last that an attempt left; undefined: there is none. */
  get checkpoint(): unknown { return this.read.checkpoint ? this.parsed("checkpoint") : undefined; }
  /** By the server's clock, as it was at the claim; the worker moves it on. Undefined: never. */
  get deadline(): Date | undefined { return this.read.deadline ? toDate(this.read.deadline) : undefined; }
  /** W3C Trace Context, where the server sends one. */
  get traceparent(): string { return this.read.traceparent; }

  /** Tells how far it is, from 0 to 1. Once this resolves, the server has a checkpoint on its disk. */
  async progress(value?: number, { checkpoint, note }: { checkpoint?: Json; note?: string } = {}): Promise<void> {
    if (value !== undefined && !(value >= 0 && value <= 1)) throw new RangeError(`progress is from 0 to 1, not ${value}`);
    await this.send({ progress: value, checkpoint: checkpoint === undefined ? undefined : toJson(checkpoint) || "{}", note });
  }

  private whole?: m.Task;
  private values?: Map<string, unknown>;

  private parsed(field: "instanceParams" | "nodeParams" | "eventData" | "checkpoint"): unknown {
    this.values ??= new Map();
    if (!this.values.has(field)) this.values.set(field, fromJson(this.read[field]));
    return this.values.get(field);
  }
}
