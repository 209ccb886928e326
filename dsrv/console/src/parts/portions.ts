// Much is drawn in portions, one a frame, so that what is pressed meanwhile is answered.
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const SHORT = 24; // ms of a frame after which the next portion is larger
const LONG = 40; // and smaller

// How large the portion after one of this size is, whose frame took so long.
export function nextPortion(portion: number, took: number): number {
  if (took < SHORT) return portion * 2;
  return took > LONG ? Math.max(1, Math.floor(portion / 2)) : portion;
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
      const next = since > 0 ? nextPortion(portion, now - since) : portion;
      size.current = { of, portion: next, since: now };
      setState({ of, drawn: drawn + next });
    });
    return () => cancelAnimationFrame(frame);
  }, [of, drawn, more]);
  return Math.min(drawn, all);
}
