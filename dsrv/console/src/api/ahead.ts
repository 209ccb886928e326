// What a page will ask for as soon as it is there, asked while what it needs first is on its way.
import { call } from "./call";
import type { MethodName, ReplyOf, RequestOf, ServiceName } from "./types";

const KEPT_MS = 10_000; // an answer that nobody has taken by then is old

const asked = new Map<string, Promise<unknown>>();

function keyOf(service: string, method: string, request: unknown): string {
  return JSON.stringify([service, method, request]);
}

export function askAhead<S extends ServiceName, M extends MethodName<S>>(
  service: S,
  method: M,
  request: RequestOf<S, M>,
): void {
  const key = keyOf(service, method, request);
  if (asked.has(key)) return;
  const answer = call(service, method, request);
  answer.catch(() => undefined); // whoever takes it hears of it
  asked.set(key, answer);
  setTimeout(() => asked.delete(key), KEPT_MS);
}

// The answer to what was asked ahead, once; else it is asked for now.
export function callOrTake<S extends ServiceName, M extends MethodName<S>>(
  service: S,
  method: M,
  request: RequestOf<S, M>,
  signal?: AbortSignal,
): Promise<ReplyOf<S, M>> {
  const key = keyOf(service, method, request);
  const answer = asked.get(key) as Promise<ReplyOf<S, M>> | undefined;
  asked.delete(key);
  return answer ?? call(service, method, request, signal);
}
