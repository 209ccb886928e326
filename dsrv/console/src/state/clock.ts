// The time, for texts that tell how long ago something was. It stands while nothing is live.
import { signal } from "@preact/signals";
import { live } from "./live";

export const now = signal(Date.now());

export function runClock(): void {
  setInterval(() => {
    if (live.value && !document.hidden) now.value = Date.now();
  }, 1000);
}
