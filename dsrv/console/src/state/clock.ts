// The time, for texts that tell how long ago something was. It stands while nothing is live.
import { signal } from "@preact/signals";
import { live } from "./live";

const TICK = 1000;
const SLOW = 10; // ticks

export const now = signal(Date.now());

const slow = signal(0);

// The time, read again with each tick; if not `often`, with each tenth, so that long lists of old times are
// not drawn anew each second.
export function time(often: boolean): number {
  if (often) return now.value;
  void slow.value;
  return now.peek();
}

export function runClock(): void {
  let ticks = 0;
  setInterval(() => {
    if (!live.value || document.hidden) return;
    now.value = Date.now();
    if (++ticks % SLOW === 0) slow.value = ticks;
  }, TICK);
}
