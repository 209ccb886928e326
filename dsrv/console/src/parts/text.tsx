// Texts, times, states: the small things that all pages show alike.
import type { ComponentChildren } from "preact";
import { now, time } from "../state/clock";
import { href } from "../state/route";
import { times } from "../state/settings";
import { clean, cleanLines, short } from "../text/clean";
import { epoch, exact, percent, span, timeText, word } from "../text/words";

// Anybody's text, on one line.
export function Text({ of, most }: { of: string | undefined; most?: number }) {
  const text = of ?? "";
  return (
    <bdi title={most && text.length > most ? clean(text).slice(0, 2000) : undefined}>
      {most ? short(text, most) : clean(text)}
    </bdi>
  );
}

export function Lines({ of }: { of: string | undefined }) {
  return <bdi class="lines">{cleanLines(of ?? "")}</bdi>;
}

export function Id({ of }: { of: string | undefined }) {
  return <bdi class="mono">{clean(of ?? "")}</bdi>;
}

export function Link({
  to,
  children,
  class: style,
  title,
}: {
  to: string;
  children: ComponentChildren;
  class?: string;
  title?: string;
}) {
  return (
    <a href={href(to)} class={style} title={title}>
      {children}
    </a>
  );
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

export function Time({ of }: { of: string | undefined }) {
  const ms = epoch(of);
  if (ms === undefined) return <span class="none">–</span>;
  const seconds = Math.abs(now.peek() - ms) < MINUTE;
  const text = timeText(of, times.value, times.value === "ago" ? time(seconds) : 0);
  return (
    <time dateTime={of} title={`${exact(ms, false)} local, ${exact(ms, true)}`}>
      {text}
    </time>
  );
}

// From one time to another, or until now.
export function Took({ from, until }: { from: string | undefined; until: string | undefined }) {
  const begin = epoch(from);
  if (begin === undefined) return <span class="none">–</span>;
  const end = epoch(until) ?? time(now.peek() - begin < HOUR);
  const long = Math.max(0, end - begin);
  return <>{span(until || long < 1000 ? long : Math.floor(long / 1000) * 1000)}</>;
}

// The time left until a deadline.
export function Left({ until }: { until: string | undefined }) {
  const end = epoch(until);
  if (end === undefined) return <span class="none">no deadline</span>;
  const left = end - now.value;
  return (
    <span class={left < 0 ? "late" : ""}>
      {left < 0
        ? `late by ${span(Math.floor(-left / 1000) * 1000)}`
        : `${span(Math.ceil(left / 1000) * 1000)} left`}
    </span>
  );
}

// Each state has a shape and a word besides its colour.
const SHAPES: Record<string, string> = {
  running: "M5 3l8 5-8 5z",
  planning: "M8 2.5a5.5 5.5 0 1 1 0 11zM8 2.5a5.5 5.5 0 0 0 0 11",
  scheduled: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zm-1 2h1.6v3.2l2.2 1.7-1 1.2L7 8.4z",
  paused: "M4 3h3v10H4zM9 3h3v10H9z",
  stopped: "M3.5 3.5h9v9h-9z",
  success: "M3 8.5l1.6-1.6L7 9.2l5-5.4 1.5 1.5L7 12.2z",
  warning: "M8 2l6.5 11.5h-13z",
  error: "M4.2 2.8L8 6.6l3.8-3.8 1.4 1.4L9.4 8l3.8 3.8-1.4 1.4L8 9.4l-3.8 3.8-1.4-1.4L6.6 8 2.8 4.2z",
  cancelled: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm-4 5h8v2H4z",
  aborted: "M5 2h6l3 3v6l-3 3H5l-3-3V5zm2 2.5v4.6h2V4.5zm0 5.6V12h2v-1.9z",
  ready: "M8 3.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zm0 1.8a2.7 2.7 0 1 1 0 5.4 2.7 2.7 0 0 1 0-5.4z",
  claimed: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
  waiting: "M4 2.500h8L9 8l3 5.500H4L7 8z",
  held: "M8 1.5L14.5 8 8 14.5 1.5 8z",
  pending: "M3 7h2.5v2H3zM6.75 7h2.5v2h-2.5zM10.5 7H13v2h-2.5z",
};
const ALIAS: Record<string, string> = {
  done: "success",
  skipped: "cancelled",
  suspended: "waiting",
  left_out: "pending",
  not_run: "pending",
  active: "running",
  ended: "stopped",
  draining: "waiting",
  drained: "paused",
  lost: "error",
  offline: "stopped",
  open: "error",
  "half-open": "warning",
  closed: "success",
  frozen: "paused",
  dropping: "waiting",
  deleted: "stopped",
  failed: "error",
  started: "running",
  sent: "success",
  exists: "success",
  missed: "warning",
  expired: "warning",
  dropped: "cancelled",
  candidate: "planning",
  pinned: "claimed",
  idle: "pending",
  limited: "warning",
  preview: "pending",
};

// The family that a state's colour and shape are of.
export function look(state: string): string {
  const name = state.toLowerCase();
  return SHAPES[name] ? name : (ALIAS[name] ?? "pending");
}

export function Mark({ state }: { state: string }) {
  const name = look(state);
  return (
    <svg class={`mark is-${name}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[name]} />
    </svg>
  );
}

export function State({ of, note }: { of: string | undefined; note?: string }) {
  if (!of) return <span class="none">–</span>;
  return (
    <span class={`state is-${look(of)}`}>
      <Mark state={of} />
      {word(of)}
      {note ? ` ${note}` : ""}
    </span>
  );
}

// An instance's state and result in one: what has stopped is told by its result.
export function StateOf({ state, result, cancel }: { state?: string; result?: string; cancel?: string }) {
  const stopped = state === "STOPPED" && result && result !== "PENDING";
  const cancelling = cancel && cancel !== "MODE_UNSPECIFIED" && state !== "STOPPED";
  return <State of={stopped ? result : state} note={cancelling ? "· cancelling" : ""} />;
}

export function Bar({ share, state }: { share: number; state?: string }) {
  const width = Math.round(Math.max(0, Math.min(1, share)) * 100);
  return (
    <svg
      class={`bar ${state ? `is-${look(state)}` : ""}`}
      viewBox="0 0 100 6"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${width} %`}
    >
      <rect class="track" width="100" height="6" />
      <rect class="fill" width={width} height="6" />
    </svg>
  );
}

// A bar with its number, which takes as much room whatever it is.
export function Progress({ share }: { share: number }) {
  return (
    <span class="progress">
      <Bar share={share} />
      <span>{percent(share)}</span>
    </span>
  );
}

export function None({ children }: { children?: ComponentChildren }) {
  return <span class="none">{children ?? "–"}</span>;
}
