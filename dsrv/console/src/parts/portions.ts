// Much is drawn in portions, one a frame, so that what is pressed meanwhile is answered.
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const SHORT = 24; // ms of a frame after which the next portion is larger
const LONG = 40; // and smaller
const MOST = 3; // times the first one
const BUSY = 100; // ms of a frame after which what nobody sees yet waits
const PAUSE = 4; // times as long as that frame took
const LAST = 1000; // ms, at most

// How large the portion after one of this size is, whose frame took so long. It is never smaller than the
// first one: what makes frames long on a busy machine is not what is drawn. Nor is it much larger: a short
// frame does not say how long the next one takes, which is in the way of what is pressed.
export function nextPortion(portion: number, took: number, first: number): number {
  if (took < SHORT) return Math.min(MOST * first, portion * 2);
  return took > LONG ? Math.max(first, Math.floor(portion / 2)) : portion;
}

// How long what is below the window waits after such a frame: other tabs that open meanwhile go first.
export function pauseAfter(took: number): number {
  return took > BUSY ? Math.min(LAST, PAUSE * took) : 0;
}

interface Options {
  of?: unknown; // what is drawn: it begins anew when this is another one
  unseen?: boolean; // all but the first portion is below the window
}

// How many of `all` are to be drawn by now: `first` to begin with.
export function usePortions(all: number, first: number, { of, unseen }: Options = {}): number {
  const [state, setState] = useState({ of, drawn: first });
  const size = useRef({ of, portion: first, since: 0 });
  if (size.current.of !== of) size.current = { of, portion: first, since: 0 };
  const drawn = state.of === of ? state.drawn : first;
  const more = drawn < all;
  // Not by timers, nor by effects behind the frame: these wait as long as keys are pressed.
  useLayoutEffect(() => {
    if (!more) return undefined;
    const begun = size.current.since > 0;
    if (!begun) size.current.since = performance.now();
    let frame = 0;
    let timer = 0;
    const draw = () => {
      const now = performance.now();
      const { portion, since } = size.current;
      const next = begun ? nextPortion(portion, now - since, first) : portion;
      size.current = { of, portion: next, since: now };
      setState({ of, drawn: drawn + next });
    };
    const later = () => {
      const wait = unseen ? pauseAfter(performance.now() - size.current.since) : 0;
      if (wait === 0) return draw();
      timer = window.setTimeout(soon, wait);
      addEventListener("scroll", soon, { once: true, passive: true });
    };
    const soon = () => {
      stop();
      size.current.since = performance.now();
      frame = requestAnimationFrame(draw);
    };
    const stop = () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      removeEventListener("scroll", soon);
    };
    // The next frame is that of the first portion, which was drawn outside of any.
    frame = requestAnimationFrame(begun ? later : () => (frame = requestAnimationFrame(later)));
    return stop;
  }, [of, drawn, more]);
  return Math.min(drawn, all);
}
