import assert from "node:assert/strict";
import test from "node:test";
import { envelope, EnvelopeReader, messagesOf } from "./envelopes";
import { Refusal } from "./refusal";

function end(body: object): Uint8Array {
  const bytes = envelope(body);
  bytes[0] = 2;
  return bytes;
}

function joined(...parts: Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

function streamed(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
      controller.close();
    },
  });
}

async function all(bytes: Uint8Array, size: number): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const message of messagesOf(streamed(bytes, size))) found.push(message);
  return found;
}

test("messages come whole, however the bytes come", async () => {
  const bytes = joined(envelope({ a: "ä" }), envelope({ b: 2 }), end({}));
  for (const size of [1, 2, 3, 5, 7, 1000]) assert.deepEqual(await all(bytes, size), [{ a: "ä" }, { b: 2 }]);
});

test("the head is a byte of flags and four of the length", () => {
  const bytes = envelope({});
  assert.deepEqual([...bytes], [0, 0, 0, 0, 2, 0x7b, 0x7d]);
  assert.deepEqual(new EnvelopeReader().take(bytes), [{}]);
});

test("an error at the end is a refusal with its reason", async () => {
  const error = {
    code: "out_of_range",
    message: "the cursor has expired",
    details: [{ debug: { reason: "CURSOR_EXPIRED" } }],
  };
  await assert.rejects(
    all(joined(envelope({ a: 1 }), end({ error })), 4),
    (refusal) =>
      refusal instanceof Refusal &&
      refusal.reason === "CURSOR_EXPIRED" &&
      refusal.message === "the cursor has expired",
  );
});

test("a stream without its end was lost", async () => {
  await assert.rejects(all(envelope({ a: 1 }), 100), (refusal) => refusal instanceof Refusal && refusal.away);
  await assert.rejects(
    all(envelope({ a: 1 }).slice(0, 6), 100),
    (refusal) => refusal instanceof Refusal && refusal.away,
  );
});
