// Calls of public methods: POST /dfsmr.v1.SERVICE/METHOD, JSON both ways.
import { base } from "./base";
import { Refusal, refusalOf, unreached } from "./refusal";
import type { MethodName, ReplyOf, RequestOf, ServiceName } from "./types";

let whenSignedOut: () => void = () => undefined;

// `tell` is called when an answer says that the session has ended.
export function onSignedOut(tell: () => void): void {
  whenSignedOut = tell;
}

let whenAnswered: (space: string) => void = () => undefined;

// `tell` is called when the server has answered for a namespace: whoever asked may see it.
export function onAnswered(tell: (space: string) => void): void {
  whenAnswered = tell;
}

export function answered(space: string | undefined): void {
  if (space) whenAnswered(space);
}

export function methodPath(service: string, method: string): string {
  return `${base}/dfsmr.v1.${service}/${method}`;
}

// Reads an answer that is not OK.
async function readRefusal(response: Response): Promise<Refusal> {
  const body = await response.json().catch(() => ({}));
  return onEnd(refusalOf(body, response.status));
}

// A refusal on its way to who asked: that a session has ended concerns the whole page.
export function onEnd(refusal: Refusal): Refusal {
  if (refusal.signedOut) whenSignedOut();
  return refusal;
}

export async function post(
  path: string,
  body: unknown,
  signal?: AbortSignal,
  type = "application/json",
): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "content-type": type },
      body: body instanceof Uint8Array ? new Blob([body.slice().buffer]) : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw unreached();
  }
  if (!response.ok) throw await readRefusal(response);
  return response;
}

const KEPT_MS = 10_000; // an answer that nobody has taken by then is old
const ahead = new Map<string, Promise<unknown>>();

// Asks while the code of the page that needs the answer is on its way. The first call of the same takes it.
export function callAhead<S extends ServiceName, M extends MethodName<S>>(
  service: S,
  method: M,
  request: RequestOf<S, M>,
): Promise<ReplyOf<S, M>> {
  const key = JSON.stringify([service, method, request]);
  const answer = (ahead.get(key) as Promise<ReplyOf<S, M>> | undefined) ?? call(service, method, request);
  answer.catch(() => undefined); // whoever takes it tells it
  ahead.set(key, answer);
  setTimeout(() => ahead.delete(key), KEPT_MS);
  return answer;
}

function takeAhead(...asked: unknown[]): Promise<unknown> | undefined {
  if (ahead.size === 0) return undefined;
  const key = JSON.stringify(asked);
  const answer = ahead.get(key);
  ahead.delete(key);
  return answer;
}

export async function call<S extends ServiceName, M extends MethodName<S>>(
  service: S,
  method: M,
  request: RequestOf<S, M>,
  signal?: AbortSignal,
): Promise<ReplyOf<S, M>> {
  const early = takeAhead(service, method, request);
  if (early) return early as Promise<ReplyOf<S, M>>;
  const response = await post(methodPath(service, method), request, signal);
  answered((request as { namespace?: string }).namespace);
  return response.json();
}
