// Much is drawn in portions, one a frame, so that what is pressed meanwhile is answered.
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const SHORT = 24; // ms of a frame after which the next portion is larger
const LONG = 40; // and smaller
const MOST = 3; // times the first one

// How large the portion after one of this size is, whose frame took so long. It is never smaller than the
// first one: what makes frames long on a busy machine is not what is drawn. Nor is it much larger: a short
// frame does not say how long the next one takes, which is in the way of what is pressed.
export function nextPortion(portion: number, took: number, first: number): number {
  if (took < SHORT) return Math.min(MOST * first, portion * 2);
  return took > LONG ? Math.max(first, Math.floor(portion / 2)) : portion;
}

// How many of `all` are to be drawn by now; it begins anew, with `first`, when `of` is another one.
export function usePortions(all: number, first: number, of?: unknown): number {
  const [state, setState] = useState({ of, drawn: first });
  const size = useRef({ of, portion: first, since: 0 });
  if (size.current.of !== of) size.current = { of, portion: first, since: 0 };
  const drawn = state.of === of ? state.drawn : first;
  const more = drawn < all;
  // Not by timers, nor by effects behind the frame: these wait as long as keys are pressed.
  useLayoutEffect(() => {
    if (!more) return undefined;
    const frame = requestAnimationFrame(() => {
      const now = performance.now();
      const { portion, since } = size.current;
      const next = since > 0 ? nextPortion(portion, now - since, first) : portion;
      size.current = { of, portion: next, since: now };
      setState({ of, drawn: drawn + next });
    });
    return () => cancelAnimationFrame(frame);
  }, [of, drawn, more]);
  return Math.min(drawn, all);
}
