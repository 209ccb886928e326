// The one Watch stream of this page. Parts of the page add topics; when these change, the stream is
// opened anew with all of them. Of a browser three tabs have a stream, since it opens six connections
// to a server: the others ask every 5 s.
import { effect } from "@preact/signals";
import { answered, call } from "../api/call";
import { toRefusal, type Refusal } from "../api/refusal";
import { stream } from "../api/stream";
import type { ChangesResponseJson, WatchRequest_TopicJson, WatchResponseJson } from "../api/types";
import { hidden, live, lost } from "./live";
import { signIns } from "./session";

type Topic = Omit<WatchRequest_TopicJson, "key">;
type Take = (message: WatchResponseJson) => void;
interface Entry {
  topic: Topic;
  take: Take;
  over?: boolean; // the server has ended it: it is not asked for again by itself
}

const STREAMS = 3;
const ASK_EVERY = 5000;
const FIRST_DELAY = 500;
const LAST_DELAY = 10_000;

const entries = new Map<string, Entry>();
let lastKey = 0;
let running: AbortController | undefined;

interface Begun {
  key: string;
  entry: Entry;
  messages: WatchResponseJson[]; // that have come so far
}

const KEPT_MS = 10_000; // a topic that no part of the page has taken by then is given up
const begun = new Map<string, Begun>();

// Begins a topic while the code of the page that shows it is on its way: `watch` of the same goes on with it.
// `first` gets its first message.
export function watchAhead(topic: Topic, first?: Take): void {
  const name = JSON.stringify(topic);
  if (begun.has(name)) return;
  const messages: WatchResponseJson[] = [];
  const end = watch(topic, (message) => {
    messages.push(message);
    first?.(message);
    first = undefined;
  });
  const key = String(lastKey);
  const mine: Begun = { key, entry: entries.get(key)!, messages };
  begun.set(name, mine);
  setTimeout(() => {
    if (begun.get(name) !== mine) return;
    begun.delete(name);
    end();
  }, KEPT_MS);
}

// What such a topic has said so far; it is told once.
export function saidAhead(topic: Topic | undefined): WatchResponseJson[] {
  return begun.get(JSON.stringify(topic))?.messages.splice(0) ?? [];
}

function stop(key: string): void {
  entries.delete(key);
  restart();
}

// Calls `take` with each message of the topic until the function that it returns is called.
export function watch(topic: Topic, take: Take): () => void {
  const name = JSON.stringify(topic);
  const early = begun.get(name);
  if (early) {
    begun.delete(name);
    early.entry.take = take;
    early.messages.forEach(take);
    return () => stop(early.key);
  }
  const key = String(++lastKey);
  const entry = { topic: structuredClone(topic), take };
  entries.set(key, entry);
  if (live.peek()) restart();
  else void askOnce(entry).catch(() => undefined);
  return () => stop(key);
}

let due = false;
function restart(): void {
  if (due) return;
  due = true;
  queueMicrotask(() => {
    due = false;
    running?.abort();
    running = undefined;
    if (entries.size === 0 || !live.peek() || hidden.peek()) return;
    running = new AbortController();
    void run(running.signal);
  });
}

export function runWatch(): void {
  effect(() => {
    (void live.value, hidden.value, signIns.value);
    restart();
  });
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

async function run(signal: AbortSignal): Promise<void> {
  let delay = FIRST_DELAY;
  let streams = true;
  for (const entry of entries.values()) entry.over = false;
  while (!signal.aborted && [...entries.values()].some((entry) => !entry.over)) {
    try {
      const streamed =
        streams &&
        (await withStream(() =>
          follow(signal, () => {
            delay = FIRST_DELAY;
          }),
        ));
      if (!streamed) {
        await askAll(signal);
        await pause(ASK_EVERY, signal);
      }
    } catch (error) {
      if (signal.aborted) return;
      const refusal = toRefusal(error);
      if (refusal.signedOut) return; // a new session starts it again
      if (refusal.code === "unimplemented" && streams) {
        streams = false; // a server that has no Watch is asked
        continue;
      }
      if (refusal.lasting) return refused(refusal); // until something else is asked for, or by somebody else
      lost.value ??= { since: Date.now(), why: refusal.message };
      await pause(delay, signal);
      delay = Math.min(2 * delay, LAST_DELAY);
    }
  }
}

// Runs `work` as one of the tabs that may have a stream; answers whether it was one.
async function withStream(work: () => Promise<void>): Promise<boolean> {
  if (!navigator.locks) return work().then(() => true);
  for (let slot = 0; slot < STREAMS; ++slot) {
    const ran = await navigator.locks.request(`dfsmr-watch-${slot}`, { ifAvailable: true }, async (lock) => {
      if (lock) await work();
      return !!lock;
    });
    if (ran) return true;
  }
  return false;
}

function heard(): void {
  if (lost.peek()) lost.value = undefined;
}

async function follow(signal: AbortSignal, good: () => void): Promise<void> {
  const topics = [...entries].filter(([, { over }]) => !over).map(([key, { topic }]) => ({ ...topic, key }));
  for await (const message of stream("ViewService", "Watch", { topics, every: "1s" }, signal)) {
    good();
    heard();
    const entry = entries.get(message.key ?? "");
    if (entry) told(entry, message);
  }
  await pause(FIRST_DELAY, signal); // it ended well: a server that goes on its way down
}

function goneBy({ reason, message }: Refusal): WatchResponseJson {
  return { gone: { reason, message } };
}

// The whole stream was refused: no part of the page gets anything.
function refused(refusal: Refusal): void {
  heard();
  for (const entry of entries.values()) told(entry, goneBy(refusal));
}

function namespaceOf(topic: Topic): string | undefined {
  return Object.values(topic).find((asked) => asked.namespace)?.namespace;
}

// A feed goes on where it stood, whenever the stream is opened again.
function told(entry: Entry, message: WatchResponseJson): void {
  const { topic, take } = entry;
  if (!message.gone) answered(namespaceOf(topic));
  if (topic.changes && message.news?.cursor) topic.changes.after = message.news.cursor;
  if (topic.changes && message.gone?.reason === "CURSOR_EXPIRED") {
    delete topic.changes.after;
    restart();
  }
  if (message.gone) entry.over = true;
  take(message);
}

async function askAll(signal: AbortSignal): Promise<void> {
  for (const entry of [...entries.values()]) if (!entry.over) await askOnce(entry, signal);
  heard();
}

async function askOnce(entry: Entry, signal = new AbortController().signal): Promise<void> {
  try {
    told(entry, await ask(entry.topic, signal));
  } catch (error) {
    const refusal = toRefusal(error);
    if (signal.aborted || refusal.away) throw error;
    told(entry, goneBy(refusal));
  }
}

// One answer in place of what a stream would say.
async function ask(topic: Topic, signal: AbortSignal): Promise<WatchResponseJson> {
  if (topic.overview) return { overview: await call("ViewService", "GetOverview", topic.overview, signal) };
  if (topic.machine) return { machine: await call("RunnerService", "GetMachine", topic.machine, signal) };
  if (topic.instance) return { instance: await call("RunnerService", "GetInstance", topic.instance, signal) };
  if (topic.steps) return { steps: await call("ViewService", "ListSteps", topic.steps, signal) };
  if (topic.queues) return { queues: await call("ViewService", "ListQueues", topic.queues, signal) };
  if (topic.workers) return { workers: await call("ViewService", "ListWorkers", topic.workers, signal) };
  if (topic.bulk) return { bulk: await call("BulkService", "GetBulk", topic.bulk, signal) };
  const news: ChangesResponseJson = { changes: [] };
  for await (const some of stream("RunnerService", "Changes", { ...topic.changes, follow: false }, signal)) {
    news.changes!.push(...(some.changes ?? []));
    if (some.cursor) news.cursor = some.cursor;
  }
  return { news };
}
