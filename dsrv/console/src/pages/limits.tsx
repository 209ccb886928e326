// /n/NAMESPACE/limits
import { call } from "../api/call";
import type { LimitJson, SetLimitRequestJson } from "../api/types";
import { Do, sent, type Action, type Values } from "../parts/act";
import { Empty, Facts, Refused } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { Bar, Id, Link, None, Text, Time } from "../parts/text";
import { useLoad } from "../state/load";
import { usePages } from "../state/pages";
import { namespace, query, setQuery, to } from "../state/route";
import { argument } from "../text/shell";
import { count, duration, plural, word } from "../text/words";

function rateText(limit: LimitJson): string {
  return limit.rate?.count ? `${count(limit.rate.count)} in ${duration(limit.rate.per)}` : "";
}

const COLUMNS: Column<LimitJson>[] = [
  { id: "key", title: "Key", narrow: true, cell: (limit) => <Id of={limit.key} /> },
  {
    id: "held",
    title: "Held",
    number: true,
    narrow: true,
    cell: (limit) => `${count(limit.held)}${limit.max !== undefined ? ` of ${count(limit.max)}` : ""}`,
  },
  {
    id: "full",
    lesser: 2,
    title: "",
    cell: (limit) =>
      limit.max ? (
        <span class="progress">
          <Bar
            share={Number(limit.held ?? 0) / limit.max}
            state={Number(limit.held ?? 0) >= limit.max ? "warning" : undefined}
          />
        </span>
      ) : null,
  },
  {
    id: "waiting",
    title: "Waiting",
    number: true,
    narrow: true,
    cell: (limit) => (Number(limit.waiting ?? 0) > 0 ? count(limit.waiting) : <None>0</None>),
  },
  { id: "rate", title: "Rate", cell: (limit) => rateText(limit) || <None /> },
  { id: "from", title: "Said by", cell: (limit) => word(limit.maxFrom ?? limit.rateFrom) },
  {
    id: "document",
    lesser: 3,
    title: "Document",
    cell: (limit) => (limit.document ? <Id of={limit.document} /> : <None />),
  },
  { id: "note", title: "Note", grow: true, cell: (limit) => <Text of={limit.note} most={100} /> },
];

export function LimitsPage() {
  const prefix = query.value.get("prefix") ?? "";
  const waited = query.value.get("waited") === "1";
  const list = usePages<LimitJson>(
    async (pageToken, signal) => {
      const reply = await call(
        "ScheduleService",
        "ListLimits",
        { namespace: namespace.value, prefix, waitedFor: waited, pageToken },
        signal,
      );
      return { rows: reply.limits ?? [], next: reply.nextPageToken };
    },
    [namespace.value, prefix, waited],
  );
  return (
    <ListPage
      title="Limits"
      list={list}
      columns={COLUMNS}
      rowKey={(limit) => limit.key!}
      detail={(_, key) => <OneLimit name={key} />}
      about="How many go on at once, and how often, by key."
      actions={<Do label="Set any key …" role="OPERATOR" action={() => setting({})} />}
      above={
        <div class="bar-row">
          <label class="inline">
            Begins with{" "}
            <input
              value={prefix}
              placeholder="any"
              onChange={(event) => setQuery({ prefix: event.currentTarget.value })}
            />
          </label>
          <label class="inline">
            <input
              type="checkbox"
              checked={waited}
              onChange={(event) => setQuery({ waited: event.currentTarget.checked ? "1" : undefined })}
            />{" "}
            waited for
          </label>
        </div>
      }
      empty={
        <Empty
          title={prefix || waited ? "No key is so." : "No limit is held, waited for or set."}
          command="dcli limits set env/prod --max 1"
        >
          Machines and nodes name the limits that they take; a number for a key:
        </Empty>
      }
    />
  );
}

function requestOf(limit: LimitJson, { key, max, rate, per, note }: Values): SetLimitRequestJson {
  return {
    namespace: namespace.value,
    key: limit.key ?? key,
    note: note || undefined,
    ...(max === "none" ? { noMax: true } : max ? { max: Number(max) } : {}),
    ...(rate ? { rate: { count: Number(rate), per: `${Number(per || 60)}s`, burst: 1 } } : {}),
  };
}

function setting(limit: LimitJson): Action {
  return {
    title: limit.key ? `Set ${limit.key}` : "Set a limit",
    verb: "Set",
    about: "Until it is reset. Who now has room begins at once; who holds it goes on.",
    fields: [
      ...(limit.key
        ? []
        : [{ name: "key", label: "Key", problem: (text: string) => (text ? "" : "It is needed.") }]),
      {
        name: "max",
        label: "At most",
        value: limit.max === undefined ? "" : String(limit.max),
        hint: "A number, or none; empty: unchanged.",
        problem: (text) => (/^(\d+|none)?$/.test(text) ? "" : "A whole number, or none."),
      },
      {
        name: "rate",
        label: "Rate: so many",
        value: limit.rate?.count ? String(limit.rate.count) : "",
        hint: "0 takes the rate away; empty: unchanged.",
        problem: (text) => (/^\d*$/.test(text) ? "" : "A whole number."),
      },
      {
        name: "per",
        label: "in so many seconds",
        value: limit.rate?.per?.replace("s", "") ?? "60",
        problem: (text) => (Number(text) > 0 ? "" : "A number."),
      },
      { name: "note", label: "Note", hint: "Shown beside it: why." },
    ],
    send: (values) => sent("ScheduleService", "SetLimit", requestOf(limit, values)),
    dcli: ({ key, max, rate, per, note }) => [
      "limits",
      "set",
      argument(limit.key ?? key),
      ...(max ? ["--max", max] : []),
      ...(rate ? ["--rate", rate === "0" ? "none" : `${rate}/${per}s`] : []),
      ...(note ? ["--note", note] : []),
    ],
  };
}

function OneLimit({ name }: { name: string }) {
  const loaded = useLoad(
    (signal) =>
      call("ScheduleService", "GetLimit", { namespace: namespace.value, key: name, pageSize: 100 }, signal),
    [namespace.value, name],
    2000,
  );
  const limit = loaded.data;
  if (!limit || limit.key !== name) return <Refused refusal={loaded.refusal} />;
  const set = limit.maxFrom === "OVERRIDE" || limit.rateFrom === "OVERRIDE";
  return (
    <>
      <p class="actions">
        <Do class="small" label="Set …" role="OPERATOR" action={() => setting(limit)} />
        {set && (
          <Do
            class="small"
            label="Reset"
            role="OPERATOR"
            action={() => ({
              title: `Reset ${name}`,
              verb: "Reset",
              about: "Drops what was set by hand.",
              send: () =>
                sent("ScheduleService", "SetLimit", { namespace: namespace.value, key: name, reset: true }),
              dcli: () => ["limits", "reset", argument(name)],
            })}
          />
        )}
      </p>
      <Facts
        rows={[
          [
            "At most",
            limit.max === undefined ? "no number" : `${count(limit.max)}, said by the ${word(limit.maxFrom)}`,
          ],
          ["Rate", rateText(limit)],
          ["Next", limit.nextToken && <Time of={limit.nextToken} />],
          ["Held", count(limit.held)],
          ["Waiting", count(limit.waiting)],
          [
            "Set by",
            limit.setBy && (
              <>
                <Text of={limit.setBy} /> <Time of={limit.setTime} />
              </>
            ),
          ],
          ["Note", limit.note && <Text of={limit.note} />],
        ]}
      />
      {(limit.holders ?? []).length > 0 && (
        <>
          <h3>Held by</h3>
          <ul class="plain">
            {limit.holders!.map((one) => (
              <li key={`${one.instance} ${one.node}`}>
                <Link to={to("instances", one.instance!)}>
                  <Id of={one.instance} />
                </Link>
                {one.node && (
                  <>
                    {" "}
                    at <Id of={one.node} />
                  </>
                )}{" "}
                <span class="quiet">
                  since <Time of={one.since} />
                  {one.forced ? ", forced" : ""}
                  {one.cancelling ? ", asked to go" : ""}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      {(limit.waiters ?? []).length > 0 && (
        <>
          <h3>Waiting, in the order of their turns</h3>
          <ol>
            {limit.waiters!.map((one) => (
              <li key={`${one.instance} ${one.node}`}>
                <Link to={to("instances", one.instance!)}>
                  <Id of={one.instance} />
                </Link>{" "}
                <span class="quiet">
                  since <Time of={one.since} />
                  {one.paused ? ", paused" : ""}
                  {(one.lacks ?? []).length > 1 ? `, lacks ${plural(one.lacks!.length, "key")}` : ""}
                </span>
              </li>
            ))}
          </ol>
        </>
      )}
    </>
  );
}
