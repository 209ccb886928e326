// /n/NAMESPACE/schedules
import { call } from "../api/call";
import type { BackfillScheduleResponseJson, OccurrenceJson, ScheduleJson } from "../api/types";
import { Do, sent, tell, type Action } from "../parts/act";
import { Empty, Facts, Head, Refused, Tabs, tabOf } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { deleting, Occurrences, pausing } from "../parts/occurrences";
import { Id, Link, None, State, StateOf, Text, Time } from "../parts/text";
import { useLoad } from "../state/load";
import { usePages } from "../state/pages";
import { namespace, to } from "../state/route";
import { cleanLines } from "../text/clean";
import { objectProblem } from "../text/json";
import { argument } from "../text/shell";
import { count, plural } from "../text/words";
import { Calendar } from "./calendar";

const TABS = [
  { id: "list", title: "List" },
  { id: "calendar", title: "Calendar" },
];

const COLUMNS: Column<ScheduleJson>[] = [
  { id: "schedule", title: "Schedule", narrow: true, cell: (one) => <Id of={one.name} /> },
  { id: "state", title: "State", narrow: true, cell: (one) => <State of={one.state} /> },
  { id: "summary", title: "Times", cell: (one) => <Text of={one.summary} most={60} /> },
  {
    id: "starts",
    lesser: 2,
    title: "Starts",
    cell: (one) =>
      one.machine ? (
        <Link to={to("machines", one.machine)}>
          <Id of={one.machine} />
        </Link>
      ) : (
        <None>a transition</None>
      ),
  },
  { id: "next", title: "Next", narrow: true, cell: (one) => <Time of={one.nextTime} /> },
  {
    id: "last",
    title: "Last",
    cell: (one) =>
      one.last ? (
        <>
          <Time of={one.last.time} />{" "}
          <StateOf state={one.last.state ?? one.last.outcome} result={one.last.result} />
        </>
      ) : (
        <None />
      ),
  },
  { id: "running", lesser: 3, title: "Running", number: true, cell: (one) => count(one.running) },
  {
    id: "failures",
    title: "Failures in a row",
    number: true,
    cell: (one) =>
      one.failuresInARow ? <span class="late">{count(one.failuresInARow)}</span> : <None>0</None>,
  },
  { id: "note", title: "Note", grow: true, cell: (one) => <Text of={one.note} most={100} /> },
];

export function SchedulesPage() {
  const tab = tabOf(TABS);
  const list = usePages<ScheduleJson>(
    async (pageToken, signal) => {
      const reply = await call(
        "ScheduleService",
        "ListSchedules",
        { namespace: namespace.value, pageToken },
        signal,
      );
      return { rows: reply.schedules ?? [], next: reply.nextPageToken };
    },
    [namespace.value],
  );
  const empty = (
    <Empty title="No schedules yet." command="dcli define machines/nightly.schedule.yaml">
      A schedule starts instances at times. Write one on the page <Link to={to("define")}>Define</Link>, or:
    </Empty>
  );
  return (
    <>
      <Head title="Schedules" />
      <Tabs tabs={TABS} of={tab} clear={["name"]} />
      {tab === "calendar" ? (
        list.rows?.length === 0 ? (
          empty
        ) : (
          list.rows && <Calendar schedules={list.rows} />
        )
      ) : (
        <ListPage
          bare
          title="Schedules"
          list={list}
          columns={COLUMNS}
          rowKey={(one) => one.name!}
          empty={empty}
          detail={(_, name) => <OneSchedule name={name} />}
        />
      )}
    </>
  );
}

function runNow(schedule: ScheduleJson): Action {
  return {
    title: `Run ${schedule.name} now`,
    verb: "Run",
    about: "An occurrence by hand; it moves no regular one.",
    fields: [
      {
        name: "params",
        label: "Params",
        kind: "lines",
        hint: "A JSON object; its keys win over the schedule's.",
        problem: objectProblem,
      },
    ],
    send: ({ params }) =>
      sent("ScheduleService", "RunSchedule", {
        namespace: namespace.value,
        name: schedule.name,
        params: params || undefined,
      }),
    dcli: ({ params }) => [
      "schedules",
      "run",
      argument(schedule.name),
      ...(params ? ["--params", params] : []),
    ],
    done: (reply: OccurrenceJson) =>
      tell(
        reply.instance ? (
          <>
            Started{" "}
            <Link to={to("instances", reply.instance)}>
              <Id of={reply.instance} />
            </Link>
            .
          </>
        ) : (
          <>
            It was {(reply.outcome ?? "").toLowerCase()}. <Text of={reply.error} />
          </>
        ),
      ),
  };
}

function backfill(schedule: ScheduleJson): Action {
  const need = (text: string) => (text ? "" : "It is needed.");
  return {
    title: `Backfill ${schedule.name}`,
    verb: "Backfill",
    about: "All times of a range in the past, as a group.",
    fields: [
      { name: "from", label: "From", hint: "A date, a local date-time, or RFC 3339.", problem: need },
      { name: "to", label: "To", hint: "Belongs to it; a date is its whole day.", problem: need },
      {
        name: "max",
        label: "Running at most",
        kind: "number",
        value: "1",
        problem: (text) => (/^\d+$/.test(text) ? "" : "It must be a whole number."),
      },
      {
        name: "again",
        label: "What ran already",
        kind: "choice",
        choices: [
          ["", "stays as it is"],
          ["failed", "runs again where it failed"],
          ["all", "runs again"],
        ],
      },
      { name: "dry", label: "Only tell what would run", kind: "check", value: "true" },
    ],
    send: ({ from, to: until, max, again, dry }) =>
      sent("ScheduleService", "BackfillSchedule", {
        namespace: namespace.value,
        name: schedule.name,
        fromTime: from,
        toTime: until,
        maxRunning: Number(max),
        again: again || undefined,
        dryRun: dry === "true" || undefined,
      }),
    dcli: ({ from, to: until, max, again, dry }) => [
      "schedules",
      "backfill",
      argument(schedule.name),
      "--from",
      from,
      "--to",
      until,
      "--max-running",
      max,
      ...(again ? ["--again", again] : []),
      dry === "true" && "--dry-run",
    ],
    done: (reply: BackfillScheduleResponseJson) =>
      reply.group ? (
        void tell(
          <>
            {plural(reply.total, "time")} will run, as the group{" "}
            <Link to={to("groups", { name: reply.group.name })}>
              <Id of={reply.group.name} />
            </Link>
            .
          </>,
        )
      ) : (
        <div>
          <p>
            <b>{count(reply.total)}</b> would run, {count(reply.existing)} stay as they are.
          </p>
          <ul class="plain">
            {(reply.times ?? []).slice(0, 20).map((one) => (
              <li key={one.time} class="mono">
                {one.local || one.time}
              </li>
            ))}
          </ul>
        </div>
      ),
  };
}

function OneSchedule({ name }: { name: string }) {
  const loaded = useLoad(
    (signal) => call("ScheduleService", "GetSchedule", { namespace: namespace.value, name }, signal),
    [namespace.value, name],
    5000,
  );
  const one = loaded.data;
  if (!one || one.name !== name) return <Refused refusal={loaded.refusal} />;
  const paused = one.state === "PAUSED";
  return (
    <>
      <p class="actions">
        <Do class="small" label="Run now" role="OPERATOR" action={() => runNow(one)} />
        <Do
          class="small"
          label={paused ? "Resume" : "Pause"}
          role="OPERATOR"
          action={() => pausing({ schedule: name }, !paused)}
        />
        <Do class="small" label="Backfill …" role="OPERATOR" action={() => backfill(one)} />
        <Do class="small" label="Delete" role="OPERATOR" action={() => deleting({ schedule: name })} />
      </p>
      <Facts
        rows={[
          ["Times", <Text of={one.summary} />],
          ["Zone", one.timezone],
          ["Overlap", one.overlap],
          ["Version", `v${one.version}`],
          [
            "Paused by",
            one.pausedBy && (
              <>
                <Text of={one.pausedBy} /> <Time of={one.pauseTime} />
              </>
            ),
          ],
          ["Note", one.note && <Text of={one.note} />],
          [
            "So far",
            <Link to={to("instances", { q: `schedule:${name}` })}>
              {plural(one.occurrences, "occurrence")}
            </Link>,
          ],
        ]}
      />
      {(one.upcoming ?? []).length > 0 && (
        <>
          <h3>To come</h3>
          <ul class="plain">
            {one.upcoming!.map((time) => (
              <li key={time.time}>
                <Time of={time.time} /> <span class="quiet mono">{time.local}</span>
                {time.note && (
                  <span class="late">
                    {" "}
                    <Text of={time.note} />
                  </span>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      <Occurrences source={{ schedule: name }} />
      <details>
        <summary>Source</summary>
        <pre class="code">{cleanLines(one.source ?? "")}</pre>
      </details>
    </>
  );
}
