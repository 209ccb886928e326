// What came due of a schedule or trigger, and what became of it.
import { call } from "../api/call";
import type { Occurrence_OutcomeJson, OccurrenceJson, RetryOccurrencesResponseJson } from "../api/types";
import { usePages } from "../state/pages";
import { namespace, to } from "../state/route";
import { argument } from "../text/shell";
import { plural } from "../text/words";
import { Do, sent, tell, type Action } from "./act";
import { Empty, Waiting } from "./bits";
import { Json } from "./json";
import { Id, Link, State, StateOf, Text, Time } from "./text";

export type Source = { schedule: string } | { trigger: string };

function nameOf(source: Source): [string, string] {
  return "schedule" in source ? ["schedules", source.schedule] : ["triggers", source.trigger];
}

function again(source: Source, ids: string[], drop: boolean): Action {
  const [kind, name] = nameOf(source);
  return {
    title: `${drop ? "Drop" : "Retry"} ${ids.length ? plural(ids.length, "dead letter") : "all dead letters"} of ${name}`,
    verb: drop ? "Drop" : "Retry",
    danger: drop,
    about: drop
      ? "They are given up."
      : "They are tried again with the version that stands now, oldest first.",
    send: () =>
      sent("ScheduleService", "RetryOccurrences", {
        namespace: namespace.value,
        ...source,
        ids,
        all: ids.length === 0,
        drop,
      }),
    dcli: () => [kind, drop ? "drop" : "retry", argument(name), ...(ids.length ? ids : ["--all"])],
    done: (reply: RetryOccurrencesResponseJson) => {
      const refused = (reply.results ?? []).filter((result) => result.error?.message);
      tell(
        `${plural((reply.results ?? []).length - refused.length, "dead letter")} ${drop ? "dropped" : "tried again"}${refused.length ? `, ${refused.length} refused` : ""}.${reply.more ? " There are more." : ""}`,
      );
    },
  };
}

export function Occurrences({ source, outcome }: { source: Source; outcome?: Occurrence_OutcomeJson }) {
  const list = usePages<OccurrenceJson>(
    async (pageToken, signal) => {
      const reply = await call(
        "ScheduleService",
        "ListOccurrences",
        {
          namespace: namespace.value,
          ...source,
          outcomes: outcome ? [outcome] : [],
          pageSize: 30,
          withItems: "trigger" in source,
          pageToken,
        },
        signal,
      );
      return { rows: reply.occurrences ?? [], next: reply.nextPageToken };
    },
    [namespace.value, source, outcome],
  );
  const rows = list.rows ?? [];
  const failed = rows.filter((one) => one.outcome === "FAILED");
  return (
    <>
      <h3>What became of it</h3>
      <Waiting on={list} />
      {failed.length > 0 && (
        <p class="actions">
          <Do
            class="small"
            label="Retry all that failed"
            role="OPERATOR"
            action={() => again(source, [], false)}
          />
          <Do class="small" label="Drop them" role="OPERATOR" action={() => again(source, [], true)} />
        </p>
      )}
      {list.rows && rows.length === 0 && <Empty title="Nothing has come due yet." />}
      <ul class="plain occurrences">
        {rows.map((one) => (
          <li key={one.id}>
            <div>
              <State of={one.outcome} /> <Time of={one.time} />
              {Number(one.count ?? 0) > 1 ? ` ×${one.count}` : ""}
              {one.instance && (
                <>
                  {" "}
                  <Link to={to("instances", one.instance)}>
                    <Id of={one.instance} />
                  </Link>{" "}
                  <StateOf state={one.state} result={one.result} />
                </>
              )}
              {one.outcome === "FAILED" && (
                <span class="next">
                  {" "}
                  <Do
                    class="small"
                    label="Retry"
                    role="OPERATOR"
                    action={() => again(source, [one.id!], false)}
                  />
                  <Do
                    class="small"
                    label="Drop"
                    role="OPERATOR"
                    action={() => again(source, [one.id!], true)}
                  />
                </span>
              )}
            </div>
            {one.error && (
              <p class="late">
                <Text of={one.error} most={300} />
              </p>
            )}
            {one.item && (
              <details>
                <summary>item</summary>
                <Json of={one.item} />
              </details>
            )}
          </li>
        ))}
      </ul>
      {list.next && (
        <button type="button" class="small" onClick={list.more}>
          Show more
        </button>
      )}
    </>
  );
}

export function pausing(source: Source, paused: boolean): Action {
  const [kind, name] = nameOf(source);
  return {
    title: `${paused ? "Pause" : "Resume"} ${name}`,
    verb: paused ? "Pause" : "Resume",
    about: paused ? "Nothing comes of it until it is resumed." : undefined,
    fields: [
      ...(paused ? [{ name: "note", label: "Note", hint: "Shown beside it: why." }] : []),
      ...(!paused && "trigger" in source
        ? [
            {
              name: "skip",
              label: "From now on",
              kind: "check" as const,
              hint: "What came meanwhile is passed over.",
            },
          ]
        : []),
    ],
    send: ({ note, skip }) =>
      sent("ScheduleService", "SetPaused", {
        namespace: namespace.value,
        ...source,
        paused,
        note,
        skipMissed: skip === "true" || undefined,
      }),
    dcli: ({ note, skip }) => [
      kind,
      paused ? "pause" : "resume",
      argument(name),
      ...(note ? ["--note", note] : []),
      skip === "true" && "--skip",
    ],
  };
}

export function deleting(source: Source): Action {
  const [kind, name] = nameOf(source);
  return {
    title: `Delete ${name}`,
    verb: "Delete",
    danger: true,
    about: "Nothing comes of it any more. Instances that it started go on; what became of it stays readable.",
    send: () => sent("ScheduleService", "DeleteDefinition", { namespace: namespace.value, ...source }),
    dcli: () => [kind, "delete", argument(name)],
  };
}
