// Whether the page renews itself, and how it stands with the server.
import { signal } from "@preact/signals";

export const live = signal(true); // "." stops it
export const hidden = signal(typeof document !== "undefined" && document.hidden);

export interface Lost {
  since: number;
  why: string;
}
export const lost = signal<Lost | undefined>(); // the stream broke: what is shown is of `since`

export function watchVisibility(): void {
  document.addEventListener("visibilitychange", () => {
    hidden.value = document.hidden;
  });
}
