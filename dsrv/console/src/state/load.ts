// Data of a page: asked for once, again when what it depends on changes, and every so often while live.
import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal, toRefusal } from "../api/refusal";
import { hidden, live, lost } from "./live";
import { signIns } from "./session";
import { saidAhead, watch } from "./watch";
import type { WatchRequest_TopicJson, WatchResponseJson } from "../api/types";

export interface Loaded<T> {
  data: T | undefined;
  refusal: Refusal | undefined;
  reload: () => void;
}

export const LIST_AGAIN = 2000;

// What is there before the whole answer is; while something of the same is shown it says nothing.
export type Early<T> = (data: T) => void;

// `ask` is called again whenever `on` changes; with `again`, after so many ms while the page is live.
export function useLoad<T>(
  ask: (signal: AbortSignal, early: Early<T>) => Promise<T>,
  on: unknown[],
  again = 0,
): Loaded<T> {
  const [state, setState] = useState<{ data?: T; refusal?: Refusal; of?: string }>({});
  const [round, setRound] = useState(0);
  const key = JSON.stringify([on, signIns.value]);
  const asking = useRef({ ask, again });
  asking.current = { ask, again };
  useEffect(() => {
    const stop = new AbortController();
    const once = !again;
    let timer = 0;
    const early = (data: T) => {
      if (!stop.signal.aborted) setState((before) => (before.of === key ? before : { data, of: key }));
    };
    const load = async () => {
      try {
        const data = await asking.current.ask(stop.signal, early);
        if (stop.signal.aborted) return;
        setState({ data, of: key });
        if (lost.peek()) lost.value = undefined;
      } catch (error) {
        if (stop.signal.aborted) return;
        const refusal = toRefusal(error);
        if (refusal.away) lost.value ??= { since: Date.now(), why: refusal.message };
        setState((before) => ({ ...(before.of === key ? before : {}), refusal, of: key }));
      }
      wait();
    };
    const wait = () => {
      if (once) return;
      timer = window.setTimeout(() => {
        if (asking.current.again && live.peek() && !hidden.peek()) void load();
        else wait();
      }, asking.current.again || LIST_AGAIN);
    };
    void load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, round]);
  const fresh = state.of === key;
  return {
    data: state.data, // that of before stays until the new one is here
    refusal: fresh ? state.refusal : undefined,
    reload: () => setRound((before) => before + 1),
  };
}

// The server said why the topic has ended, be it that it is not there, be it that the caller may not see it.
function goneOf({ reason, message }: { reason?: string; message?: string }): Refusal {
  return new Refusal("gone", reason ?? "", message || "It is not there any more.");
}

interface Watched<T> {
  data?: T;
  gone?: Refusal;
  of?: string;
}

// What a topic of the Watch stream said last. `take` makes the data of a message, of that before.
export function useWatch<T>(
  topic: Omit<WatchRequest_TopicJson, "key"> | undefined,
  take: (message: WatchResponseJson, before: T | undefined) => T | undefined,
): { data: T | undefined; gone: Refusal | undefined } {
  const key = JSON.stringify(topic);
  const next = (before: Watched<T>, message: WatchResponseJson): Watched<T> => {
    if (message.gone) return { ...(before.of === key ? before : {}), gone: goneOf(message.gone), of: key };
    const data = take(message, before.of === key ? before.data : undefined);
    return data === undefined ? before : { data, of: key };
  };
  const [state, setState] = useState<Watched<T>>(() => saidAhead(topic).reduce(next, {}));
  useEffect(() => {
    if (!topic) return undefined;
    return watch(topic, (message) => setState((before) => next(before, message)));
  }, [key]);
  return { data: state.of === key ? state.data : undefined, gone: state.of === key ? state.gone : undefined };
}
