// The next 14 days and the last 7 of all schedules, with what became of each time.
import { call } from "../api/call";
import type { OccurrenceJson, ScheduleJson } from "../api/types";
import { Panel, Waiting } from "../parts/bits";
import { Id, Link, look, Mark } from "../parts/text";
import { useLoad } from "../state/load";
import { namespace, to } from "../state/route";
import { times } from "../state/settings";
import { count, day, exact, plural, word } from "../text/words";

const BACK = 7;
const AHEAD = 14;
const MOST = 30;
const DAY = 86_400_000;

interface Cell {
  past: OccurrenceJson[];
  coming: string[];
}

function dayOf(time: string): string {
  return day(new Date(time), times.value === "utc");
}

async function cellsOf(
  schedule: ScheduleJson,
  first: number,
  last: number,
  signal: AbortSignal,
): Promise<Map<string, Cell>> {
  const cells = new Map<string, Cell>();
  const cell = (time: string) => {
    const key = dayOf(time);
    cells.set(key, cells.get(key) ?? { past: [], coming: [] });
    return cells.get(key)!;
  };
  const asked = { namespace: namespace.value };
  const [past, coming] = await Promise.all([
    call(
      "ScheduleService",
      "ListOccurrences",
      { ...asked, schedule: schedule.name, fromTime: new Date(first).toISOString(), pageSize: 500 },
      signal,
    ),
    schedule.state === "ENDED"
      ? { times: [] }
      : call("ScheduleService", "PreviewSchedule", { ...asked, name: schedule.name, count: 400 }, signal),
  ]);
  for (const one of past.occurrences ?? []) cell(one.time!).past.push(one);
  for (const one of coming.times ?? [])
    if (Date.parse(one.time!) < last) cell(one.time!).coming.push(one.time!);
  return cells;
}

// The hour and minute, as all other times are told.
function clock(time: string): string {
  return exact(Date.parse(time), times.value === "utc").slice(11, 16);
}

// "2026-11-20" -> "Nov".
function monthOf(date: string): string {
  return new Date(`${date}T00:00:00Z`).toLocaleString("en", { month: "short", timeZone: "UTC" });
}

function ended(one: OccurrenceJson): string {
  if (one.outcome !== "STARTED") return one.outcome ?? "";
  return one.state === "STOPPED" ? (one.result ?? "") : (one.state ?? "STARTED");
}

const WORST = [
  "error",
  "aborted",
  "warning",
  "cancelled",
  "running",
  "planning",
  "scheduled",
  "paused",
  "success",
];

function Shown({ cell, schedule }: { cell: Cell | undefined; schedule: ScheduleJson }) {
  if (!cell) return <span class="hidden">none</span>;
  const looks = cell.past.map((one) => look(ended(one)));
  const worst = WORST.find((one) => looks.includes(one));
  const told = [...new Set(cell.past.map(ended))].map(
    (state) => `${cell.past.filter((one) => ended(one) === state).length} ${word(state)}`,
  );
  const coming = cell.coming.length;
  const title = [
    ...told,
    ...(coming
      ? [
          `${schedule.state === "PAUSED" ? "paused, would be " : ""}${coming} to come, first at ${clock(cell.coming[0]!)}`,
        ]
      : []),
  ].join(", ");
  return (
    <Link to={to("schedules", { tab: "list", name: schedule.name })} title={title}>
      {worst && (
        <span class={`is-${worst}`}>
          <Mark state={worst} />
          {looks.length > 1 ? count(looks.length) : ""}
        </span>
      )}
      {coming > 0 && (
        <span class={`coming ${schedule.state === "PAUSED" ? "paused" : ""}`}>
          {coming > 1 ? count(coming) : "○"}
        </span>
      )}
      <span class="hidden">{title}</span>
    </Link>
  );
}

export function Calendar({ schedules }: { schedules: ScheduleJson[] }) {
  const utc = times.value === "utc";
  const today = day(new Date(), utc);
  const now = Date.now();
  const days = Array.from({ length: BACK + AHEAD + 1 }, (_, i) => day(new Date(now + (i - BACK) * DAY), utc));
  const shown = schedules.slice(0, MOST);
  const loaded = useLoad(
    (signal) =>
      Promise.all(
        shown.map((schedule) => cellsOf(schedule, now - (BACK + 1) * DAY, now + (AHEAD + 1) * DAY, signal)),
      ),
    [
      namespace.value,
      shown.map((one) => `${one.name} ${one.version} ${one.state} ${one.occurrences}`),
      today,
    ],
  );
  if (!loaded.data) return <Waiting on={loaded} />;
  return (
    <Panel class="flush">
      <div class="list">
        <table class="calendar" aria-label="Calendar">
          <thead>
            <tr>
              <th scope="col">Schedule</th>
              {days.map((one) => (
                <th key={one} scope="col" class={one === today ? "today" : ""} aria-label={one}>
                  <small>{one.endsWith("-01") || one === days[0] ? monthOf(one) : ""}</small>
                  {Number(one.slice(8))}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((schedule, i) => (
              <tr key={schedule.name}>
                <th scope="row">
                  <Link to={to("schedules", { tab: "list", name: schedule.name })}>
                    <Id of={schedule.name} />
                  </Link>
                </th>
                {days.map((one) => (
                  <td key={one} class={one === today ? "today" : ""}>
                    <Shown cell={loaded.data![i]?.get(one)} schedule={schedule} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="legend pad">
        <span>○ to come, or how many</span>
        {["success", "error", "cancelled", "running"].map((state) => (
          <span key={state} class={`is-${state}`}>
            <Mark state={state} />
            {state}
          </span>
        ))}
      </p>
      {schedules.length > MOST && (
        <p class="quiet pad">
          The first {MOST} of {plural(schedules.length, "schedule")}.
        </p>
      )}
    </Panel>
  );
}
