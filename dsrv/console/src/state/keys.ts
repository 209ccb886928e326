// Keys: a table of what each does, for the page and for the help that "?" shows.
import { keysOn } from "./settings";

export interface Key {
  keys: string;
  what: string;
  run: (event: KeyboardEvent) => void;
}

const bound = new Map<string, Key[]>(); // of several the last counts
const GO = "g";
const GO_WITHIN = 1500;
let goPressed = 0;

// Binds a key until the function that it returns is called. "g o": one after the other.
export function bind(keys: string, what: string, run: (event: KeyboardEvent) => void): () => void {
  const key = { keys, what, run };
  bound.set(keys, [...(bound.get(keys) ?? []), key]);
  return () => {
    const left = (bound.get(keys) ?? []).filter((one) => one !== key);
    if (left.length > 0) bound.set(keys, left);
    else bound.delete(keys);
  };
}

// What keys do that only some pages have.
const SOMEWHERE: [string, string][] = [
  ["/", "filter, in the list of instances"],
  ["j", "next row of a list"],
  ["k", "row before"],
  ["x", "select the row, where rows can be"],
  ["[", "visit before, in an instance"],
  ["]", "visit after"],
  ["Enter", "open the row"],
  ["Esc", "close a dialog"],
];

// All keys, also those that do nothing on this page.
export function allKeys(): Pick<Key, "keys" | "what">[] {
  const named = new Set(SOMEWHERE.map(([keys]) => keys));
  return [
    ...[...bound.values()].map((some) => some.at(-1)!).filter(({ keys }) => !named.has(keys)),
    ...SOMEWHERE.map(([keys, what]) => ({ keys, what })),
  ];
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || !!target.shadowRoot || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented) return;
  if (event.ctrlKey || event.metaKey) {
    if (event.key.toLowerCase() === "k") runKey("Ctrl-K", event);
    return;
  }
  if (event.altKey || !keysOn.value || typing(event.target) || document.querySelector("dialog[open]")) return;
  if (event.timeStamp - goPressed < GO_WITHIN) {
    goPressed = 0;
    if (runKey(`${GO} ${event.key}`, event)) return;
  }
  if (event.key === GO) goPressed = event.timeStamp;
  else runKey(event.key, event);
}

function runKey(keys: string, event: KeyboardEvent): boolean {
  const key = bound.get(keys)?.at(-1);
  if (!key) return false;
  event.preventDefault();
  key.run(event);
  return true;
}

export function listenToKeys(): void {
  document.addEventListener("keydown", pressed);
}
