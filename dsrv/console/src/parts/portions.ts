// Much is drawn in portions, one a frame, so that what is pressed meanwhile is answered.
import { useEffect, useState } from "preact/hooks";

// How many of `all` are to be drawn by now; it begins anew when `of` is another one.
export function usePortions(all: number, portion: number, of?: unknown): number {
  const [state, setState] = useState({ of, drawn: portion });
  const drawn = state.of === of ? state.drawn : portion;
  const more = drawn < all;
  useEffect(() => {
    if (!more) return undefined;
    let timer = 0;
    // Behind the frame that shows this portion.
    const frame = requestAnimationFrame(() => {
      timer = window.setTimeout(() => setState({ of, drawn: drawn + portion }));
    });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, [of, drawn, more]);
  return Math.min(drawn, all);
}
