// /n/NAMESPACE/instances?q=&order=&cols=
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api/call";
import type { InstanceJson } from "../api/types";
import { act, Do } from "../parts/act";
import { Empty, Head, Panel, Refused } from "../parts/bits";
import { bulkOf } from "../parts/bulk";
import { FilterBox } from "../parts/filter";
import { columnsOf, DEFAULT_COLUMNS, INSTANCE_COLUMNS, needsAll } from "../parts/instances";
import { List } from "../parts/list";
import { startOf } from "../parts/start";
import { Mark, Text, Time } from "../parts/text";
import { useLoad } from "../state/load";
import { usePages } from "../state/pages";
import { href, namespace, path, query, setQuery, to } from "../state/route";
import { views } from "../state/settings";
import { clean } from "../text/clean";
import { terms, valueOf, withTerm } from "../text/filter";
import { count, plural, word } from "../text/words";
import { countsAsked, instancesAsked, LISTED } from "./asks";

const ORDERS: [string, string][] = [
  ["-changed", "changed last"],
  ["changed", "longest at rest"],
  ["-started", "started last"],
  ["started", "started first"],
  ["id", "by id"],
];
const STATES = ["RUNNING", "PAUSED", "SCHEDULED", "PLANNING", "STOPPED"];

export function InstancesPage() {
  const filter = query.value.get("q") ?? "";
  const order = query.value.get("order") ?? "-changed";
  const columns = columnsOf(query.value.get("cols"));
  const brief = !needsAll(columns);
  const dryRun = query.value.get("dry") === "1";
  const space = namespace.value;
  const [selected, select] = useState<Set<string>>(new Set());
  useEffect(() => select(new Set()), [filter, space]);
  const list = usePages<InstanceJson>(
    async (pageToken, signal) => {
      const reply = await call("RunnerService", "ListInstances", instancesAsked(pageToken), signal);
      return { rows: reply.instances ?? [], next: reply.nextPageToken, backTo: reply.backTo };
    },
    [space, filter, order, brief, dryRun],
    { size: LISTED },
  );
  // What is refused has no rows; those of the filter before stay while the server is only away.
  const refused = list.refusal !== undefined && (list.rows === undefined || list.refusal.lasting);
  const searching = list.next !== undefined && (list.rows?.length ?? 0) % LISTED !== 0 && list.backTo;
  return (
    <>
      <Head title="Instances">
        <Views />
        <Do
          label="Start …"
          role="WORKER"
          class="primary"
          action={() => startOf({ machine: valueOf(filter, "machine") ?? "" })}
        />
      </Head>
      <FilterBox refusal={list.refusal} />
      <div class="bar-row">
        <States filter={filter} />
        <span class="spring" />
        <label class="inline">
          <input
            type="checkbox"
            checked={dryRun}
            onChange={(event) => setQuery({ dry: event.currentTarget.checked ? "1" : undefined }, true)}
          />{" "}
          dry runs
        </label>
        <label class="inline">
          Order{" "}
          <select
            value={order}
            onChange={(event) =>
              setQuery(
                { order: event.currentTarget.value === "-changed" ? undefined : event.currentTarget.value },
                true,
              )
            }
          >
            {ORDERS.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <Columns />
      </div>
      {list.refusal?.reason !== "BAD_FILTER" && <Refused refusal={list.refusal} />}
      {!list.refusal && <Selection selected={selected} filter={filter} clear={() => select(new Set())} />}
      {!refused && (
        <Panel class="flush">
          {list.rows === undefined ? (
            <p class="waiting">Looking …</p>
          ) : (
            <List
              name="Instances"
              rows={list.rows}
              columns={columns}
              rowKey={(one) => one.id!}
              link={(one) => to("instances", one.id!)}
              selected={selected}
              select={select}
              whole={query.value.has("cols")}
              more={list.next ? list.more : undefined}
              moreText={
                searching ? (
                  <>
                    Looked back to&nbsp;
                    <Time of={list.backTo} />. Go on
                  </>
                ) : (
                  "Show more"
                )
              }
              empty={
                <NoInstances filter={filter} more={list.next ? list.more : undefined} backTo={list.backTo} />
              }
            />
          )}
        </Panel>
      )}
    </>
  );
}

function NoInstances({ filter, more, backTo }: { filter: string; more?: () => void; backTo?: string }) {
  if (more) {
    return (
      <Empty title="Nothing found so far.">
        Looked back to <Time of={backTo} />.{" "}
        <button type="button" onClick={more}>
          Go on
        </button>
      </Empty>
    );
  }
  if (filter)
    return (
      <Empty title="No instance matches.">
        <a href={href(path.value)}>Show all</a>
      </Empty>
    );
  return (
    <Empty title="No instances yet." command="dcli start MACHINE key=value">
      Define a machine first; then start it here, or from a shell:
    </Empty>
  );
}

// Counts by state: each sets the filter. They are told to those who do not see them every 10 s at most.
function States({ filter }: { filter: string }) {
  const rest = withTerm(filter, "state", undefined);
  const chosen = valueOf(filter, "state")?.toUpperCase();
  const counts = useLoad(
    (signal) =>
      call("ViewService", "CountInstances", countsAsked(filter), signal),
    [namespace.value, rest],
    10_000,
  );
  const groups = counts.data?.groups ?? {};
  const atLeast = counts.data?.nextPageToken ? "at least " : "";
  const choose = (state: string | undefined) => setQuery({ q: withTerm(filter, "state", state) }, true);
  return (
    <div class="states" role="group" aria-label="States">
      <button type="button" aria-pressed={!chosen} onClick={() => choose(undefined)}>
        All{" "}
        <b>
          {atLeast}
          {counts.data ? count(counts.data.total) : "…"}
        </b>
      </button>
      {STATES.filter((state) => groups[state] || state === chosen || state === "RUNNING").map((state) => (
        <button
          key={state}
          type="button"
          aria-pressed={state === chosen}
          class={`is-${state.toLowerCase()}`}
          onClick={() => choose(state === chosen ? undefined : state.toLowerCase())}
        >
          <Mark state={state} />
          {word(state)} <b>{count(groups[state])}</b>
        </button>
      ))}
      <button
        type="button"
        aria-pressed={terms(filter).includes("-state:stopped")}
        onClick={() =>
          setQuery(
            {
              q:
                withTerm(filter, "state", undefined) +
                (chosen || !filter.includes("-state:stopped") ? " -state:stopped" : ""),
            },
            true,
          )
        }
      >
        not stopped
      </button>
      <span class="hidden" aria-live="polite">
        {counts.data ? `${plural(counts.data.total, "instance")}` : ""}
      </span>
    </div>
  );
}

function useClosing(open: boolean, close: () => void) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    const outside = (event: Event) => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) close();
    };
    const escape = (event: KeyboardEvent) => {
      if (event.key === "Escape") close();
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    document.addEventListener("keydown", escape);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
      document.removeEventListener("keydown", escape);
    };
  }, [open]);
  return box;
}

function Columns() {
  const [open, setOpen] = useState(false);
  const box = useClosing(open, () => setOpen(false));
  const wanted = query.value.get("cols")?.split(",") ?? DEFAULT_COLUMNS;
  const toggle = (id: string) => {
    const next = wanted.includes(id) ? wanted.filter((one) => one !== id) : [...wanted, id];
    const cols = next.join(",") || "id"; // the id is always there: an empty list would be the default one
    setQuery({ cols: cols === DEFAULT_COLUMNS.join(",") ? undefined : cols });
  };
  return (
    <div class="popover" ref={box}>
      <button type="button" class="small" aria-expanded={open} onClick={() => setOpen(!open)}>
        Columns
      </button>
      {open && (
        <div class="pop">
          {INSTANCE_COLUMNS.filter((column) => column.id !== "id").map((column) => (
            <label key={column.id} class="check">
              <input
                type="checkbox"
                checked={wanted.includes(column.id)}
                onChange={() => toggle(column.id)}
              />
              <span>{column.title}</span>
            </label>
          ))}
        </div>
      )}
    </div>
  );
}

function Views() {
  const [open, setOpen] = useState(false);
  const box = useClosing(open, () => setOpen(false));
  const save = () =>
    act({
      title: "Save this view",
      verb: "Save",
      about: "The filter, order and columns, in this browser.",
      fields: [
        {
          name: "name",
          label: "Name",
          value: query.value.get("q") ?? "",
          problem: (text) => (text.trim() ? "" : "A name is needed."),
        },
      ],
      local: (values) => {
        const name = values["name"]!.trim();
        views.value = [
          ...views.value.filter((view) => view.name !== name),
          { name, query: query.value.toString() },
        ];
      },
    });
  return (
    <div class="popover" ref={box}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        Views
      </button>
      {open && (
        <div class="pop">
          {views.value.map((view) => (
            <div key={view.name} class="item">
              <a href={href(`${to("instances")}?${view.query}`)} onClick={() => setOpen(false)}>
                <Text of={view.name} most={60} />
              </a>
              <button
                type="button"
                class="icon"
                aria-label={`Forget ${clean(view.name)}`}
                title="Forget this view"
                onClick={() => {
                  views.value = views.value.filter((one) => one !== view);
                }}
              >
                ×
              </button>
            </div>
          ))}
          {views.value.length === 0 && <p class="quiet">None are saved yet.</p>}
          <button
            type="button"
            class="small"
            onClick={() => {
              setOpen(false);
              save();
            }}
          >
            Save this one …
          </button>
        </div>
      )}
    </div>
  );
}

const ACTIONS = ["PAUSE", "RESUME", "SKIP", "CANCEL", "TRANSITION"] as const;

function Selection({
  selected,
  filter,
  clear,
}: {
  selected: Set<string>;
  filter: string;
  clear: () => void;
}) {
  const [all, setAll] = useState(false);
  useEffect(() => setAll(false), [filter]);
  if (selected.size === 0 && !all) {
    return (
      <p class="select-all">
        <button type="button" class="link" onClick={() => setAll(true)}>
          {filter ? "Change all that match" : "Change all"} …
        </button>
      </p>
    );
  }
  const what = all ? { filter } : { instances: [...selected] };
  return (
    <div class="selection" role="group" aria-label="Selection">
      <b>{all ? (filter ? "All that match" : "All instances") : plural(selected.size, "instance")}</b>
      {ACTIONS.map((action) => (
        <Do
          key={action}
          class="small"
          role="OPERATOR"
          label={`${word(action)[0]!.toUpperCase()}${word(action).slice(1)} …`}
          action={() => bulkOf({ action, ...what })}
        />
      ))}
      {!all && (
        <button type="button" class="link" onClick={() => setAll(true)}>
          all that match instead
        </button>
      )}
      <button
        type="button"
        class="link"
        onClick={() => {
          setAll(false);
          clear();
        }}
      >
        nothing
      </button>
    </div>
  );
}
