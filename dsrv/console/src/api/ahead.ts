// Steps of a plan, asked for while what the page needs first is on its way: those of a large one take as
// long as all of that.
import { call } from "./call";
import { stream } from "./stream";
import type { ListStepsRequestJson, ListStepsResponseJson } from "./types";

const KEPT_MS = 10_000; // an answer that nobody has taken by then is old

const asked = new Map<string, Promise<ListStepsResponseJson | undefined>>();

// What Watch says first: unlike ListSteps it is not refused where there is no such instance.
async function look(steps: ListStepsRequestJson): Promise<ListStepsResponseJson | undefined> {
  const stop = new AbortController();
  try {
    const topics = [{ key: "ahead", steps }];
    for await (const message of stream("ViewService", "Watch", { topics }, stop.signal)) return message.steps;
  } finally {
    stop.abort();
  }
  return undefined;
}

export function askStepsAhead(request: ListStepsRequestJson): void {
  const key = JSON.stringify(request);
  if (asked.has(key)) return;
  asked.set(
    key,
    look(request).catch(() => undefined),
  );
  setTimeout(() => asked.delete(key), KEPT_MS);
}

// What was asked ahead is taken once.
export async function listSteps(
  request: ListStepsRequestJson,
  signal?: AbortSignal,
): Promise<ListStepsResponseJson> {
  const key = JSON.stringify(request);
  const ahead = asked.get(key);
  asked.delete(key);
  return (await ahead) ?? call("ViewService", "ListSteps", request, signal);
}
