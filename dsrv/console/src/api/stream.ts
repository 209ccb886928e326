// Calls of methods that answer with a stream.
import { methodPath, onEnd, post } from "./call";
import { envelope, messagesOf } from "./envelopes";
import { toRefusal } from "./refusal";
import type { MethodName, ReplyOf, RequestOf, ServiceName } from "./types";

const TYPE = "application/connect+json";

export async function* stream<S extends ServiceName, M extends MethodName<S>>(
  service: S,
  method: M,
  request: RequestOf<S, M>,
  signal: AbortSignal,
): AsyncGenerator<ReplyOf<S, M>> {
  const response = await post(methodPath(service, method), envelope(request), signal, TYPE);
  try {
    yield* messagesOf<ReplyOf<S, M>>(response.body!);
  } catch (error) {
    throw onEnd(toRefusal(error));
  }
}

// Sends messages, gets one: only packages are put so.
export async function send<S extends ServiceName, M extends MethodName<S>>(
  service: S,
  method: M,
  messages: RequestOf<S, M>[],
): Promise<ReplyOf<S, M>> {
  const parts = messages.map(envelope);
  const body = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.length;
  }
  const response = await post(methodPath(service, method), body, undefined, TYPE);
  let reply: ReplyOf<S, M> | undefined;
  for await (const message of messagesOf<ReplyOf<S, M>>(response.body!)) reply = message;
  return reply!;
}
