// The messages of a Connect stream: a byte of flags, four of the length, JSON. Flag 2 ends it.
import { refusalOf, unreached, type Refusal } from "./refusal";

const END = 2;
const HEAD = 5;

export function envelope(message: unknown): Uint8Array {
  const body = new TextEncoder().encode(JSON.stringify(message));
  const bytes = new Uint8Array(HEAD + body.length);
  new DataView(bytes.buffer).setUint32(1, body.length);
  bytes.set(body, HEAD);
  return bytes;
}

function joined(parts: Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

// Takes bytes as they come, gives whole messages.
export class EnvelopeReader<T> {
  private parts: Uint8Array[] = []; // of what is not whole yet
  private size = 0;
  private needed = HEAD; // so much makes the next message whole, as far as is known
  // Whether the end has come, and what it said.
  ended = false;
  refusal: Refusal | undefined;

  take(bytes: Uint8Array): T[] {
    this.parts.push(bytes);
    this.size += bytes.length;
    if (this.size < this.needed) return [];
    const all = joined(this.parts, this.size);
    const messages: T[] = [];
    let at = 0;
    this.needed = HEAD;
    while (!this.ended && all.length - at >= HEAD) {
      const length = new DataView(all.buffer, at + 1).getUint32(0);
      this.needed = HEAD + length;
      if (all.length - at < this.needed) break;
      this.needed = HEAD;
      const text = new TextDecoder().decode(all.subarray(at + HEAD, at + HEAD + length));
      if ((all[at]! & END) === 0) messages.push(JSON.parse(text) as T);
      else this.end(text);
      at += HEAD + length;
    }
    this.parts = [all.subarray(at)];
    this.size = all.length - at;
    return messages;
  }

  private end(text: string): void {
    this.ended = true;
    const error = text === "" ? undefined : JSON.parse(text).error;
    if (error) this.refusal = refusalOf(error);
  }
}

// All messages of a response. Without an end message the connection was lost.
export async function* messagesOf<T>(body: ReadableStream<Uint8Array>): AsyncGenerator<T> {
  const reader = new EnvelopeReader<T>();
  const bytes = body.getReader();
  try {
    while (!reader.ended) {
      const { done, value } = await bytes.read().catch(() => ({ done: true, value: undefined }));
      if (done || !value) break;
      yield* reader.take(value);
    }
  } finally {
    await bytes.cancel().catch(() => undefined);
  }
  if (reader.refusal) throw reader.refusal;
  if (!reader.ended) throw unreached();
}
