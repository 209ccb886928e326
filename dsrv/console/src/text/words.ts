// Numbers, durations and times in words.
import type { Times } from "../state/settings";

// Without Intl, whose first use takes a browser longer than all scripts of a page together.
export function count(value: string | number | undefined): string {
  return Number(value ?? 0)
    .toFixed(0)
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

export function plural(value: string | number | undefined, one: string, many = `${one}s`): string {
  return `${count(value)} ${Number(value ?? 0) === 1 ? one : many}`;
}

export function percent(share: number | string | undefined): string {
  const value = Number(share ?? 0) * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)} %`;
}

export function bytes(value: string | number | undefined): string {
  let size = Number(value ?? 0);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    ++unit;
  }
  return `${size >= 10 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

// Of proto's JSON: "1.5s".
export function milliseconds(duration: string | undefined): number | undefined {
  if (duration === undefined) return undefined;
  const seconds = Number(duration.replace(/s$/, ""));
  return Number.isFinite(seconds) ? seconds * 1000 : undefined;
}

const UNITS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

// At most two units: "2 min 5 s", "1.2 s", "35 ms".
export function span(ms: number | undefined): string {
  if (ms === undefined || !Number.isFinite(ms)) return "";
  if (ms < 0) return `-${span(-ms)}`;
  if (ms < 1) return ms === 0 ? "0 s" : "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  let rest = Math.round(ms / 1000) * 1000;
  const words: string[] = [];
  for (const [size, unit] of UNITS) {
    const some = Math.floor(rest / size);
    if (some > 0) words.push(`${some} ${unit}`);
    rest -= some * size;
    if (words.length === 2 || (words.length === 1 && some === 0)) break;
  }
  return words.join(" ");
}

export function duration(text: string | undefined): string {
  return span(milliseconds(text));
}

export function epoch(time: string | undefined): number | undefined {
  if (!time) return undefined;
  const value = Date.parse(time);
  return Number.isNaN(value) ? undefined : value;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

export function day(date: Date, utc = false): string {
  return utc
    ? date.toISOString().slice(0, 10)
    : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

export function exact(ms: number, utc: boolean): string {
  const date = new Date(ms);
  if (utc) return date.toISOString().replace("T", " ");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day(date)} ${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

// In one unit: enough to tell how long ago something was.
function coarse(ms: number): string {
  for (const [size, unit] of UNITS) if (ms >= size) return `${Math.floor(ms / size)} ${unit}`;
  return "";
}

export function ago(ms: number, now: number): string {
  const past = now - ms;
  if (Math.abs(past) < 1000) return "now";
  const text = coarse(Math.abs(past));
  return past >= 0 ? `${text} ago` : `in ${text}`;
}

export function timeText(time: string | undefined, how: Times, now: number): string {
  const ms = epoch(time);
  if (ms === undefined) return "";
  if (how === "ago") return ago(ms, now);
  return exact(ms, how === "utc").slice(0, how === "utc" ? 23 : 19);
}

// "AT_MAXIMUM" -> "at maximum".
export function word(name: string | undefined): string {
  return (name ?? "").toLowerCase().replace(/_/g, " ");
}

export function capital(text: string): string {
  return text === "" ? "" : text[0]!.toUpperCase() + text.slice(1);
}
