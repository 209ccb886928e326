// A plan's steps, a level at a time: what failed first, with a graph of the level.
import { askStepsAhead, listSteps } from "../../api/ahead";
import type { Step_StateJson, StepRowJson } from "../../api/types";
import { graphOfRows } from "../../graph/model";
import { Empty, Panel, Waiting } from "../../parts/bits";
import { GraphView, type Seen } from "../../parts/graph";
import { List, type Column } from "../../parts/list";
import { Id, Link, Mark, None, Progress, State, Text, Time, Took } from "../../parts/text";
import { usePages } from "../../state/pages";
import { namespace, parts, query, setQuery, to } from "../../state/route";
import { count, plural, word } from "../../text/words";
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
const MANY = 30; // rows, from which on the table stands above the graph
const FEW = 12; // boxes that are drawn even if no line is between them

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

// `end`: when the instance stopped; what it left undone goes on no longer.
function stepColumns(end: string | undefined): Column<StepRowJson>[] {
  return [
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
      lesser: 2,
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
        return share > 0 ? <Progress share={share} /> : <None />;
      },
    },
    {
      id: "children",
      lesser: 3,
      title: "Children",
      number: true,
      cell: (row) =>
        row.step?.children ? (
          `${count(row.step.children.started)} of ${count(row.step.children.total)}`
        ) : (
          <None />
        ),
    },
    {
      id: "began",
      lesser: 2,
      title: "Began",
      cell: (row) => <Time of={row.step?.startTime ?? row.startTime} />,
    },
    {
      id: "took",
      title: "Took",
      number: true,
      cell: (row) => (
        <Took from={row.step?.startTime ?? row.startTime} until={row.step?.endTime ?? row.endTime ?? end} />
      ),
    },
    {
      id: "error",
      title: "Error",
      grow: true,
      cell: (row) => <Text of={row.step?.error || row.error || row.step?.note} most={160} />,
    },
  ];
}

export function StepsTab(shown: Shown) {
  return <Level {...shown} tab="steps" />;
}

// Whether a drawing of a level tells more than its table: not of many steps that wait for nothing.
function worthDrawing(rows: StepRowJson[], least: number): boolean {
  return rows.length >= least && (rows.length <= FEW || rows.some((row) => (row.after ?? []).length > 0));
}

// One level of the steps: its graph and its table. A group opens as the next level.
export function Level({ tab, ...shown }: Shown & { tab: "steps" | "graph" }) {
  const one = shown.followed.instance;
  const under = query.value.get("under") ?? "";
  const state = (query.value.get("state") ?? "") as Step_StateJson | "";
  const node = query.value.get("node") ?? undefined;
  const list = useLevel(one.id!, under, state);
  const open = (row: StepRowJson) => {
    if (!row.step) setQuery({ under: row.path, node: undefined }, true);
    else setQuery({ node: row.path === node ? undefined : row.path });
  };
  const rows = list.rows;
  const boxes = (rows ?? []).slice(0, DRAWN);
  const drawn =
    !state &&
    (tab === "graph" || (boxes.length === rows?.length && !list.next)) &&
    worthDrawing(boxes, tab === "graph" ? 1 : 2);
  const graph = drawn && (
    <>
      <LevelGraph rows={boxes} name={`Steps of ${one.id}`} chosen={node} open={open} />
      {list.next && <p class="quiet">The first {DRAWN} are drawn; all are in the table.</p>}
    </>
  );
  const tableFirst = tab === "steps" && (rows?.length ?? 0) > MANY;
  return (
    <div class={node ? "with-side" : ""}>
      <div class="stack">
        <div class="bar-row">
          <Path under={under} tab={tab} />
          <span class="spring" />
          <ChooseState of={state} />
        </div>
        <Waiting on={list} />
        {!tableFirst && graph}
        {rows && (
          <Panel class="flush">
            <List
              name="Steps"
              rows={rows}
              columns={stepColumns(one.endTime)}
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
        {tableFirst && graph}
      </div>
      {node && <NodePanel {...shown} node={node} />}
    </div>
  );
}

function levelOf(instance: string, under: string, state: Step_StateJson | "", pageSize: number) {
  return { namespace: namespace.value, instance, under, pageSize, state: state || undefined };
}

// The level that the address names, before it is known whether there are steps.
export function askForLevelAhead(instance: string): void {
  const under = query.value.get("under") ?? "";
  const state = (query.value.get("state") ?? "") as Step_StateJson | "";
  askStepsAhead({ ...levelOf(instance, under, state, DRAWN), pageToken: "" });
}

export function useLevel(
  instance: string,
  under: string,
  state: Step_StateJson | "",
  { pageSize = DRAWN, again }: { pageSize?: number; again?: number } = {},
) {
  return usePages<StepRowJson>(
    async (pageToken, signal) => {
      const asked = { ...levelOf(instance, under, state, pageSize), pageToken };
      const reply = await listSteps(asked, signal);
      return { rows: reply.rows ?? [], next: reply.nextPageToken };
    },
    [instance, under, state],
    { again },
  );
}

function ChooseState({ of }: { of: Step_StateJson | "" }) {
  return (
    <label class="inline">
      Only with{" "}
      <select value={of} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
        <option value="">any state</option>
        {STATES.map((one) => (
          <option key={one} value={one}>
            {word(one)}
          </option>
        ))}
      </select>
    </label>
  );
}

function LevelGraph({
  rows,
  name,
  chosen,
  open,
}: {
  rows: StepRowJson[];
  name: string;
  chosen: string | undefined;
  open: (row: StepRowJson) => void;
}) {
  const byPath = new Map(rows.map((row) => [row.path, row]));
  return (
    <GraphView
      graph={graphOfRows(rows)}
      name={name}
      chosen={chosen}
      choose={(box) => open(byPath.get(box.id)!)}
      seen={(box) => seenOfRow(byPath.get(box.id)!)}
    />
  );
}

function seenOfRow(row: StepRowJson): Seen {
  if (!row.step) return seenOfCounts(row.states ?? {});
  const state = row.step.state ?? "PENDING";
  const waits = state === "PENDING";
  return { tone: waits ? undefined : state, faint: waits, badges: [{ state, text: word(state) }] };
}

// A group: how many of its steps are in each state, the three that matter most.
export function seenOfCounts(counts: Partial<Record<string, string | number>>): Seen {
  const states = STATES.filter((state) => Number(counts[state] ?? 0) > 0);
  return {
    tone: states.includes("HELD") ? "HELD" : undefined,
    badges: states.slice(0, 3).map((state) => ({ state, text: count(counts[state]) })),
  };
}

// Where in the tree one is, with the way back up.
function Path({ under, tab }: { under: string; tab: string }) {
  if (under === "") return <span class="quiet">All steps of the top level</span>;
  const words = under.split(".");
  return (
    <nav class="crumbs" aria-label="Path">
      <Link to={to("instances", here(), { tab })}>top</Link>
      {words.map((one, i) => (
        <span key={i}>
          {" "}
          /{" "}
          {i === words.length - 1 ? (
            <Id of={one} />
          ) : (
            <Link to={to("instances", here(), { tab, under: words.slice(0, i + 1).join(".") })}>
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
