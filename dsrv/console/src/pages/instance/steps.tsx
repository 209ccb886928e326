// A plan's steps, a level at a time: what failed first, with a graph of the level.
import { call } from "../../api/call";
import type { Step_StateJson, StepRowJson } from "../../api/types";
import { graphOfRows, type Box } from "../../graph/model";
import { Empty, Panel, Waiting } from "../../parts/bits";
import { GraphView, type Seen } from "../../parts/graph";
import { List, type Column } from "../../parts/list";
import { Bar, Id, Link, Mark, None, State, Text, Time, Took } from "../../parts/text";
import { usePages } from "../../state/pages";
import { namespace, parts, query, setQuery, to } from "../../state/route";
import { count, percent, plural, word } from "../../text/words";
import type { Shown } from "./index";
import { NodePanel } from "./node";

const STATES: Step_StateJson[] = [
  "HELD",
  "RUNNING",
  "CLAIMED",
  "READY",
  "WAITING",
  "SUSPENDED",
  "PENDING",
  "DONE",
  "SKIPPED",
  "LEFT_OUT",
  "NOT_RUN",
];
const DRAWN = 200;

function Counts({ of }: { of: Record<string, string> | undefined }) {
  return (
    <span class="chips">
      {STATES.filter((state) => Number(of?.[state] ?? 0) > 0).map((state) => (
        <span key={state} class={`chip is-${state.toLowerCase()}`}>
          <Mark state={state} />
          {count(of![state])} {word(state)}
        </span>
      ))}
    </span>
  );
}

// How a row's box looks.
export function seenOfRow(row: StepRowJson): Seen {
  const own = row.step
    ? (row.step.state ?? "PENDING")
    : Number(row.states?.["HELD"] ?? 0) > 0
      ? "HELD"
      : undefined;
  return {
    tone: own === "PENDING" ? undefined : own,
    faint: own === "PENDING",
    badges: row.step
      ? [{ state: own!, text: word(own) }]
      : STATES.filter((one) => Number(row.states?.[one] ?? 0) > 0)
          .slice(0, 3)
          .map((one) => ({ state: one, text: count(row.states![one]) })),
  };
}

export const STEP_COLUMNS: Column<StepRowJson>[] = [
  {
    id: "step",
    title: "Step",
    narrow: true,
    cell: (row) => (
      <>
        <Id of={row.path} />
        {!row.step && <span class="quiet"> · {plural(row.steps, "step")}</span>}
      </>
    ),
  },
  {
    id: "state",
    title: "State",
    narrow: true,
    cell: (row) => (row.step ? <State of={row.step.state ?? "PENDING"} /> : <Counts of={row.states} />),
  },
  {
    id: "action",
    title: "Action",
    cell: (row) => (row.step?.action ? <Id of={row.step.action} /> : <None />),
  },
  {
    id: "tries",
    title: "Tries",
    number: true,
    cell: (row) =>
      row.step?.tries ? (
        `${row.step.tries}${row.step.triesLimit ? ` of ${row.step.triesLimit}` : ""}`
      ) : (
        <None />
      ),
  },
  {
    id: "progress",
    title: "Progress",
    cell: (row) => {
      const share = Number(row.step?.progress ?? row.progress ?? 0);
      return share > 0 ? (
        <span class="progress">
          <Bar share={share} />
          {percent(share)}
        </span>
      ) : (
        <None />
      );
    },
  },
  {
    id: "children",
    title: "Children",
    number: true,
    cell: (row) =>
      row.step?.children ? (
        `${count(row.step.children.started)} of ${count(row.step.children.total)}`
      ) : (
        <None />
      ),
  },
  { id: "began", title: "Began", cell: (row) => <Time of={row.step?.startTime ?? row.startTime} /> },
  {
    id: "took",
    title: "Took",
    number: true,
    cell: (row) => (
      <Took from={row.step?.startTime ?? row.startTime} until={row.step?.endTime ?? row.endTime} />
    ),
  },
  {
    id: "error",
    title: "Error",
    grow: true,
    cell: (row) => <Text of={row.step?.error || row.error || row.step?.note} most={160} />,
  },
];

export function StepsTab(shown: Shown) {
  const id = shown.followed.instance.id!;
  const under = query.value.get("under") ?? "";
  const state = (query.value.get("state") ?? "") as Step_StateJson | "";
  const node = query.value.get("node") ?? undefined;
  const list = usePages<StepRowJson>(
    async (pageToken, signal) => {
      const reply = await call(
        "ViewService",
        "ListSteps",
        {
          namespace: namespace.value,
          instance: id,
          under,
          state: state || undefined,
          pageSize: DRAWN,
          pageToken,
        },
        signal,
      );
      return { rows: reply.rows ?? [], next: reply.nextPageToken };
    },
    [id, under, state],
    {},
  );
  const open = (row: StepRowJson) => {
    if (!row.step) setQuery({ under: row.path, node: undefined }, true);
    else setQuery({ node: row.path === node ? undefined : row.path });
  };
  const rows = list.rows;
  const choose = (box: Box) => {
    const row = rows?.find((some) => some.path === box.id);
    if (row) open(row);
  };
  return (
    <div class={node ? "with-side" : ""}>
      <div class="stack">
        <div class="bar-row">
          <Path under={under} />
          <span class="spring" />
          <label class="inline">
            Only with{" "}
            <select value={state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
              <option value="">any state</option>
              {STATES.map((one) => (
                <option key={one} value={one}>
                  {word(one)}
                </option>
              ))}
            </select>
          </label>
        </div>
        <Waiting on={list} />
        {rows && rows.length > 1 && rows.length <= DRAWN && !state && (
          <GraphView
            graph={graphOfRows(rows)}
            name={`Steps of ${id}`}
            chosen={node}
            choose={choose}
            seen={(box) => seenOfRow(rows.find((some) => some.path === box.id)!)}
          />
        )}
        {rows && (
          <Panel class="flush">
            <List
              name="Steps"
              rows={rows}
              columns={STEP_COLUMNS}
              rowKey={(row) => row.path!}
              open={open}
              opened={node}
              more={list.next ? list.more : undefined}
              tone={(row) => (row.step?.state === "HELD" || row.error ? "bad" : undefined)}
              empty={
                <Empty title={state ? `No step is ${word(state)}.` : "No steps yet."}>
                  {!state && "It has not been planned; the error above, if there is one, is of the planning."}
                </Empty>
              }
            />
          </Panel>
        )}
      </div>
      {node && <NodePanel {...shown} node={node} />}
    </div>
  );
}

// Where in the tree one is, with the way back up.
function Path({ under }: { under: string }) {
  if (under === "") return <span class="quiet">All steps of the top level</span>;
  const words = under.split(".");
  return (
    <nav class="crumbs" aria-label="Path">
      <Link to={to("instances", here(), { tab: "steps" })}>top</Link>
      {words.map((one, i) => (
        <span key={i}>
          {" "}
          /{" "}
          {i === words.length - 1 ? (
            <Id of={one} />
          ) : (
            <Link to={to("instances", here(), { tab: "steps", under: words.slice(0, i + 1).join(".") })}>
              <Id of={one} />
            </Link>
          )}
        </span>
      ))}
      <button
        type="button"
        class="link"
        onClick={() => setQuery({ under: undefined, node: undefined }, true)}
      >
        all
      </button>
    </nav>
  );
}

function here(): string {
  return parts.value[3] ?? "";
}
