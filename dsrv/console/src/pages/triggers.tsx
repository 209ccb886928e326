// /n/NAMESPACE/triggers
import { call } from "../api/call";
import type { OccurrenceJson, TriggerJson } from "../api/types";
import { Do, sent, tell, type Action } from "../parts/act";
import { Empty, Facts, Refused } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { deleting, Occurrences, pausing } from "../parts/occurrences";
import { Id, Link, None, State, Text, Time } from "../parts/text";
import { useLoad } from "../state/load";
import { usePages } from "../state/pages";
import { namespace, to } from "../state/route";
import { cleanLines } from "../text/clean";
import { argument } from "../text/shell";
import { count, word } from "../text/words";

const COLUMNS: Column<TriggerJson>[] = [
  { id: "trigger", title: "Trigger", narrow: true, cell: (one) => <Id of={one.name} /> },
  { id: "state", title: "State", narrow: true, cell: (one) => <State of={one.state} /> },
  { id: "summary", title: "Listens to", cell: (one) => <Text of={one.summary} most={70} /> },
  {
    id: "starts",
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
  { id: "listed", lesser: 2, title: "Occurrences", number: true, cell: (one) => count(one.occurrences) },
  { id: "gathering", lesser: 3, title: "Gatherings", number: true, cell: (one) => count(one.openGatherings) },
  {
    id: "failed",
    title: "Failed",
    number: true,
    narrow: true,
    cell: (one) =>
      Number(one.failed ?? 0) > 0 ? <span class="late">{count(one.failed)}</span> : <None>0</None>,
  },
  { id: "lag", lesser: 2, title: "Behind", number: true, cell: (one) => count(one.lag) },
  {
    id: "last",
    title: "Last",
    cell: (one) =>
      one.last ? (
        <>
          <Time of={one.last.time} /> <State of={one.last.outcome} />
        </>
      ) : (
        <None />
      ),
  },
  {
    id: "note",
    title: "Note",
    grow: true,
    cell: (one) => <Text of={one.note || one.pollError} most={100} />,
  },
];

export function TriggersPage() {
  const list = usePages<TriggerJson>(
    async (pageToken, signal) => {
      const reply = await call(
        "ScheduleService",
        "ListTriggers",
        { namespace: namespace.value, pageToken },
        signal,
      );
      return { rows: reply.triggers ?? [], next: reply.nextPageToken };
    },
    [namespace.value],
  );
  return (
    <ListPage
      title="Triggers"
      list={list}
      columns={COLUMNS}
      rowKey={(one) => one.name!}
      detail={(_, name) => <OneTrigger name={name} />}
      tone={(one) => (Number(one.failed ?? 0) > 0 || one.pollError ? "bad" : undefined)}
      empty={
        <Empty title="No triggers yet." command="dcli define machines/intake.trigger.yaml">
          A trigger starts instances when something happens. Write one on the page{" "}
          <Link to={to("define")}>Define</Link>, or:
        </Empty>
      }
    />
  );
}

function fire(one: TriggerJson): Action {
  return {
    title: `Fire ${one.name}`,
    verb: "Fire",
    about: "An item by hand, as if its source had brought it.",
    fields: [
      {
        name: "item",
        label: "Item",
        kind: "lines",
        value: "{}",
        hint: "JSON, as the source would bring it.",
      },
      { name: "on", label: "Which source", hint: "May be empty where there is one." },
    ],
    send: ({ item, on }) =>
      sent("ScheduleService", "FireTrigger", {
        namespace: namespace.value,
        name: one.name,
        item,
        on: on || undefined,
      }),
    dcli: ({ item }) => ["triggers", "fire", argument(one.name), "--item", item],
    done: (reply: OccurrenceJson) =>
      tell(
        reply.instance ? (
          <>
            It {word(reply.outcome)}{" "}
            <Link to={to("instances", reply.instance)}>
              <Id of={reply.instance} />
            </Link>
            .
          </>
        ) : (
          <>
            It was {word(reply.outcome)}. <Text of={reply.error} />
          </>
        ),
      ),
  };
}

function OneTrigger({ name }: { name: string }) {
  const loaded = useLoad(
    (signal) => call("ScheduleService", "GetTrigger", { namespace: namespace.value, name }, signal),
    [namespace.value, name],
    5000,
  );
  const one = loaded.data;
  if (!one || one.name !== name) return <Refused refusal={loaded.refusal} />;
  const paused = one.state === "PAUSED";
  return (
    <>
      <p class="actions">
        <Do class="small" label="Fire …" role="OPERATOR" action={() => fire(one)} />
        <Do
          class="small"
          label={paused ? "Resume" : "Pause"}
          role="OPERATOR"
          action={() => pausing({ trigger: name }, !paused)}
        />
        <Do class="small" label="Delete" role="OPERATOR" action={() => deleting({ trigger: name })} />
      </p>
      <Facts
        rows={[
          ["Listens to", <Text of={one.summary} />],
          ["Webhook", one.webhookPath && <Id of={one.webhookPath} />],
          ["Overlap", one.overlap],
          ["Left out by if", one.filtered && count(one.filtered)],
          ["Duplicates", one.duplicates && count(one.duplicates)],
          [
            "Gathered",
            one.gathered && `${count(one.gathered)}, ${count(one.openGatherings)} gatherings open`,
          ],
          ["Next poll", one.nextPoll && <Time of={one.nextPoll} />],
          ["Last poll", one.lastPoll && <Time of={one.lastPoll} />],
          [
            "Poll failed",
            one.pollError && (
              <span class="late">
                <Text of={one.pollError} />
              </span>
            ),
          ],
          [
            "Paused by",
            one.pausedBy && (
              <>
                <Text of={one.pausedBy} /> <Time of={one.pauseTime} />
              </>
            ),
          ],
          ["Note", one.note && <Text of={one.note} />],
          ["Lost", one.deadLettersLost && `${count(one.deadLettersLost)} dead letters, of more than 10,000`],
        ]}
      />
      <Occurrences source={{ trigger: name }} />
      <details>
        <summary>Source</summary>
        <pre class="code">{cleanLines(one.source ?? "")}</pre>
      </details>
    </>
  );
}
