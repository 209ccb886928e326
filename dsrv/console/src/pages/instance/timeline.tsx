// Bars of each visit: waited, worked by attempt, suspended, timed out; children in line.
import { useState } from "preact/hooks";
import { call } from "../../api/call";
import type { InstanceJson } from "../../api/types";
import { Empty, Panel, Waiting } from "../../parts/bits";
import { href, namespace, query, setQuery, to } from "../../state/route";
import { now } from "../../state/clock";
import { useLoad } from "../../state/load";
import { clean, short } from "../../text/clean";
import { term } from "../../text/filter";
import { count, epoch, span } from "../../text/words";
import { barsOf, criticalPath, type VisitBar } from "./bars";
import type { Shown } from "./index";
import { useRecords } from "./records";

const NAME = 170;
const WIDTH = 1000;
const ROW = 22;
const TICK = 62; // pixels of a time at the top
const MOST = 300;

interface Line {
  key: string;
  name: string;
  url: string;
  from: number;
  to: number;
  bar?: VisitBar;
  child?: InstanceJson;
  critical: boolean;
  note: string;
}

function linesOf(one: InstanceJson, bars: VisitBar[], children: InstanceJson[], at: number): Line[] {
  const path = criticalPath(bars);
  const own = bars.map((bar): Line => ({
    key: `${bar.node} ${bar.visit}`,
    name: bar.node,
    url: to("instances", one.id!, { tab: "history", node: bar.node.replace(/\/\w+$/, "") }),
    from: bar.from,
    to: bar.to,
    bar,
    critical: path.has(bar),
    note:
      `${bar.node}, visit ${bar.visit}: ${span(bar.to - bar.from)}${bar.open ? " so far" : bar.end ? `, ${bar.end}` : ""}; ` +
      bar.parts
        .map(
          (part) =>
            `${part.phase} ${span(part.to - part.from)}${part.attempt ? ` (attempt ${part.attempt})` : ""}`,
        )
        .join(", "),
  }));
  const theirs = children
    .filter((child) => child.startTime)
    .map((child): Line => {
      const from = epoch(child.startTime)!;
      const until = epoch(child.endTime) ?? at;
      return {
        key: `child ${child.id}`,
        name: child.id!,
        url: to("instances", child.id!, { tab: "timeline" }),
        from,
        to: until,
        child,
        critical: false,
        note: `child ${clean(child.id!)}: ${span(until - from)}`,
      };
    });
  return [...own, ...theirs].sort((a, b) => a.from - b.from);
}

export function TimelineTab({ followed }: Shown) {
  const one = followed.instance;
  const records = useRecords(followed);
  const children = useLoad(
    (signal) =>
      call(
        "RunnerService",
        "ListInstances",
        { namespace: namespace.value, filter: term("parent", one.id!), brief: true, pageSize: 100 },
        signal,
      ),
    [one.id],
    5000,
  );
  const [all, setAll] = useState(false);
  if (!records.data) return <Waiting on={records} />;
  const end = epoch(one.endTime) ?? now.value;
  const lines = linesOf(one, barsOf(records.data.changes, end), children.data?.instances ?? [], end);
  if (lines.length === 0)
    return <Empty title="Nothing has begun yet.">The bars appear once it stands on a node.</Empty>;
  const first = Math.min(...lines.map((line) => line.from));
  const last = Math.max(...lines.map((line) => line.to), first + 1);
  const zoom = Math.max(1, Number(query.value.get("zoom") ?? 1));
  const shown = all ? lines : lines.slice(0, MOST);
  return (
    <Panel
      aside={
        <div class="actions">
          <button type="button" class="small" onClick={() => setQuery({ zoom: zoom * 2 })}>
            Closer
          </button>
          <button
            type="button"
            class="small"
            aria-disabled={zoom === 1 ? "true" : undefined}
            onClick={() => setQuery({ zoom: zoom > 2 ? zoom / 2 : undefined })}
          >
            Farther
          </button>
        </div>
      }
      title={<>{span(last - first)} in all</>}
    >
      {!records.data.whole && (
        <p class="quiet">The newest {count(records.data.changes.length)} records are drawn.</p>
      )}
      <div class="timeline">
        <Bars lines={shown} first={first} last={last} zoom={zoom} />
      </div>
      {lines.length > shown.length && (
        <div class="more">
          <button type="button" onClick={() => setAll(true)}>
            Show all {count(lines.length)}
          </button>
        </div>
      )}
      <p class="legend">
        <span>
          <i class="p-waited" /> waited
        </span>
        <span>
          <i class="p-worked" /> worked
        </span>
        <span>
          <i class="p-suspended" /> suspended
        </span>
        <span>
          <i class="p-timed" /> timed out
        </span>
        <span>
          <i class="p-child" /> child
        </span>
        <span>
          <i class="p-critical" /> on the critical path
        </span>
      </p>
    </Panel>
  );
}

function ticks(first: number, last: number, most: number): number[] {
  const steps = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000,
    3_600_000, 10_800_000, 43_200_000, 86_400_000, 604_800_000,
  ];
  const step = steps.find((size) => (last - first) / size <= most) ?? last - first;
  const found: number[] = [];
  for (let at = 0; at <= last - first; at += step) found.push(at);
  return found;
}

function Bars({ lines, first, last, zoom }: { lines: Line[]; first: number; last: number; zoom: number }) {
  const width = WIDTH * zoom;
  const x = (at: number) => NAME + ((at - first) / (last - first)) * (width - NAME - 10);
  const height = lines.length * ROW + 26;
  return (
    <svg
      viewBox={`0 0 ${width} ${height}`}
      style={{ width: `${zoom * 100}%`, minWidth: `${Math.min(width, 700)}px` }}
      role="group"
      aria-label="Timeline"
    >
      {ticks(first, last, 8 * zoom).map((at) => (
        <g key={at} class="tick">
          <path d={`M${x(first + at)} 18V${height}`} />
          {x(first + at) + TICK < width && (
            <text x={x(first + at) + 3} y="12">
              {at === 0 ? "0" : span(at)}
            </text>
          )}
        </g>
      ))}
      {lines.map((line, i) => (
        <a
          key={line.key}
          href={href(line.url)}
          class={`line ${line.critical ? "critical" : ""}`}
          aria-label={line.note}
        >
          <title>{line.note}</title>
          <rect class="row" x="0" y={i * ROW + 22} width={width} height={ROW} />
          <text x="4" y={i * ROW + 37}>
            {line.child ? "↳ " : ""}
            {short(line.name, 22)}
          </text>
          {line.critical && (
            <path
              class="p-critical"
              d={`M${x(line.from)} ${i * ROW + 41}H${Math.max(x(line.to), x(line.from) + 2)}`}
            />
          )}
          {line.bar ? (
            line.bar.parts.map((part) => (
              <rect
                key={part.from}
                class={`p-${part.phase.split(" ")[0]}`}
                x={x(part.from)}
                y={i * ROW + 26}
                width={Math.max(1.5, x(part.to) - x(part.from))}
                height={part.phase === "waited" ? 6 : 13}
                transform={part.phase === "waited" ? "translate(0 3.5)" : undefined}
              />
            ))
          ) : (
            <rect
              class="p-child"
              x={x(line.from)}
              y={i * ROW + 27}
              width={Math.max(2, x(line.to) - x(line.from))}
              height="11"
              rx="3"
            />
          )}
        </a>
      ))}
    </svg>
  );
}
