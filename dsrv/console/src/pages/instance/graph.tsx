// The tokens on their nodes, and the path taken.
import { useMemo, useRef, useState } from "preact/hooks";
import { call } from "../../api/call";
import type { ChangeJson, InstanceJson, NodeJson, StepJson, TokenJson } from "../../api/types";
import { grouped, MOST } from "../../graph/groups";
import { graphOfNodes, graphOfSteps, type Box } from "../../graph/model";
import { Waiting } from "../../parts/bits";
import { GraphView, Legend, type Move, type Seen } from "../../parts/graph";
import { List, type Column } from "../../parts/list";
import { Id, None, State } from "../../parts/text";
import { useLoad } from "../../state/load";
import { namespace, query, setQuery } from "../../state/route";
import { count, word } from "../../text/words";
import { isBetween, passedOf } from "./bars";
import type { Shown } from "./index";
import { NodePanel } from "./node";
import { useRecords } from "./records";
import { Level, seenOfCounts, useLevel } from "./steps";
import { useVisits } from "./visits";

const RECENT = 5000;
const WHOLE = 2000;

// What moved since the page was opened, for dots; of plans, from step to step.
export function movesOf(news: ChangeJson[], opened: number): Move[] {
  return news
    .filter(
      (change) =>
        change.kind === "TRANSITIONED" &&
        Date.parse(change.time ?? "") > Math.max(opened, Date.now() - RECENT),
    )
    .map((change) => ({ id: change.seq!, from: change.prevNode ?? "", to: change.node ?? "" }));
}

function seenOf(
  box: Box,
  tokens: TokenJson[],
  entered: ReadonlySet<string>,
  one: InstanceJson,
  group: (id: string) => string,
): Seen {
  const own = tokens.filter((token) => group(token.node!) === box.id);
  if (own.length === 0) return { faint: box.kind !== "group" && !entered.has(box.id) };
  const done = own.every((token) => token.state === "DONE");
  if (own.length === 1) {
    const state = done ? (one.result ?? "DONE") : own[0]!.state!;
    const attempt = own[0]!.attempt ?? 0;
    return {
      tone: state,
      badges: [{ state, text: word(state) + (!done && attempt > 1 ? `, attempt ${attempt}` : "") }],
    };
  }
  const counts = new Map<string, number>();
  for (const token of own) counts.set(token.state!, (counts.get(token.state!) ?? 0) + 1);
  return {
    tone: own.some((token) => token.state === "HELD") ? "HELD" : own[0]!.state,
    badges: [...counts].map(([state, number]) => ({ state, text: count(number) })),
  };
}

// The steps of each group by state.
function countsOf(steps: StepJson[], group: (path: string) => string): Map<string, Record<string, number>> {
  const found = new Map<string, Record<string, number>>();
  for (const { path, state = "PENDING" } of steps) {
    const counts = found.get(group(path!)) ?? {};
    counts[state] = (counts[state] ?? 0) + 1;
    found.set(group(path!), counts);
  }
  return found;
}

function useParts(shown: Shown) {
  const one = shown.followed.instance;
  return useLoad(
    async (signal) => {
      if (!shown.plan) return { nodes: shown.machine?.nodes ?? [], steps: [] };
      const whole = await call(
        "RunnerService",
        "GetInstance",
        { namespace: namespace.value, id: one.id, withNodes: true },
        signal,
      );
      return { nodes: whole.nodes ?? [], steps: whole.steps ?? [] };
    },
    [one.id, shown.plan, shown.plan ? one.changeTime : shown.machine?.version],
  );
}

// Of a plan of more steps than WHOLE one level at a time is drawn, with the counts that the server has of each
// group: all nodes of 100,000 steps are never asked for.
export function GraphTab(shown: Shown) {
  return shown.plan ? <PlanGraph {...shown} /> : <WholeGraph {...shown} />;
}

function PlanGraph(shown: Shown) {
  const top = useLevel(shown.followed.instance.id!, "", "", { pageSize: 1000, again: 10_000 });
  if (!top.rows) return <Waiting on={top} />;
  const steps = top.rows.reduce((sum, row) => sum + (row.step ? 1 : Number(row.steps ?? 0)), 0);
  const large = steps > WHOLE || top.next !== undefined || query.value.has("under");
  return large ? <Level {...shown} tab="graph" /> : <WholeGraph {...shown} />;
}

function WholeGraph(shown: Shown) {
  const one = shown.followed.instance;
  const loaded = useParts(shown);
  const records = useRecords(shown.followed);
  const opened = useRef(Date.now());
  const [stands, setStands] = useState(false);
  const open = new Set(
    query.value
      .getAll("open")
      .flatMap((text) => text.split(","))
      .filter((text) => text !== ""),
  );
  const compiled = !shown.plan || query.value.get("as") === "nodes";
  const nodes = loaded.data?.nodes;
  const graph = useMemo(
    () => nodes && grouped(compiled ? graphOfNodes(nodes) : graphOfSteps(loaded.data!.steps), open),
    [
      JSON.stringify((compiled ? nodes : loaded.data?.steps)?.map((part) => ("id" in part ? part.id : part))),
      compiled,
      [...open].join(),
    ],
  );
  const chosen = query.value.get("node") ?? undefined;
  useVisits(
    (records.data?.changes ?? []).filter((change) => change.node && !isBetween(change.node)),
    (change) => change.node === chosen,
    (change) => setQuery({ node: change.node }),
  );
  if (!graph || !nodes || !records.data) return <Waiting on={loaded.data ? records : loaded} />;
  const { edges, nodes: entered } = passedOf(records.data.changes);
  const boxes = new Set(graph.boxes.map((box) => box.id));
  const group = (id: string): string => {
    for (let path = id; path !== ""; path = path.replace(/[./][^./]*$|^[^./]*$/, ""))
      if (boxes.has(path)) return path;
    return id;
  };
  const choose = (box: Box) => {
    if (box.kind === "group") setQuery({ open: [...open, box.id].join(",") }, true);
    else setQuery({ node: box.id === chosen ? undefined : box.id });
  };
  const counted = (edge: { from: string; to: string }) =>
    compiled ? (edges.get(`${edge.from}\n${edge.to}`) ?? 0) : undefined;
  const stepSeen = new Map(loaded.data!.steps.map((step) => [step.path, step.state ?? "PENDING"]));
  const counts = compiled ? undefined : countsOf(loaded.data!.steps, group);
  const seen = (box: Box): Seen => {
    if (counts && box.kind === "group") return seenOfCounts(counts.get(box.id) ?? {});
    const state = compiled ? undefined : stepSeen.get(box.id);
    return state
      ? {
          tone: state === "PENDING" ? undefined : state,
          badges: [{ state, text: word(state) }],
          faint: state === "PENDING",
        }
      : seenOf(box, one.tokens ?? [], entered, one, group);
  };
  return (
    <div class={chosen ? "with-side" : ""}>
      <div class="stack">
        {shown.plan && (
          <p class="row-links">
            <label class="inline">
              Shown as{" "}
              <select
                value={compiled ? "nodes" : "flow"}
                onChange={(event) =>
                  setQuery({
                    as: event.currentTarget.value === "nodes" ? "nodes" : undefined,
                    open: undefined,
                    node: undefined,
                  })
                }
              >
                <option value="flow">the flow</option>
                <option value="nodes">its compiled nodes</option>
              </select>
            </label>
          </p>
        )}
        <div>
          <GraphView
            graph={graph}
            name={`Where ${one.id} stands`}
            chosen={chosen}
            choose={choose}
            moves={movesOf(shown.followed.news, opened.current)}
            passed={counted}
            seen={seen}
            stands={() => setStands(true)}
          />
          <Legend states={["READY", "CLAIMED", "WAITING", "HELD"]} />
        </div>
        {graph.boxes.some((box) => box.kind === "group") && (
          <p class="quiet">
            More than {count(MOST)} boxes are drawn by groups: open one to see into it.
            {open.size > 0 && (
              <>
                {" "}
                <button type="button" class="link" onClick={() => setQuery({ open: undefined })}>
                  Close all
                </button>
              </>
            )}
          </p>
        )}
        {stands && (
          <NodeTable nodes={compiled ? nodes : []} one={one} entered={entered} chosen={chosen} />
        )}
      </div>
      {chosen && <NodePanel {...shown} node={chosen} nodes={nodes} />}
    </div>
  );
}

function NodeTable({
  nodes,
  one,
  entered,
  chosen,
}: {
  nodes: NodeJson[];
  one: InstanceJson;
  entered: ReadonlySet<string>;
  chosen?: string;
}) {
  const tokens = new Map((one.tokens ?? []).map((token) => [token.node, token]));
  const columns: Column<NodeJson>[] = [
    { id: "node", title: "Node", narrow: true, cell: (node) => <Id of={node.id} /> },
    { id: "kind", title: "Kind", cell: (node) => node.kind },
    {
      id: "stands",
      title: "Stands",
      narrow: true,
      cell: (node) => {
        const token = tokens.get(node.id);
        return token ? (
          <State of={token.state === "DONE" ? one.result : token.state} />
        ) : entered.has(node.id!) ? (
          "was here"
        ) : (
          <None>not reached</None>
        );
      },
    },
    {
      id: "leads",
      title: "Leads to",
      grow: true,
      cell: (node) =>
        (node.transitions ?? [])
          .map((edge) => `${edge.transition} → ${(edge.targets ?? []).join(", ")}`)
          .join("; ") || <None />,
    },
  ];
  const rows = nodes.filter((node) => node.kind !== "system");
  if (rows.length === 0) return null;
  return (
    <section class="panel flush">
      <List
        name="Nodes"
        rows={rows}
        columns={columns}
        rowKey={(node) => node.id!}
        opened={chosen}
        open={(node) => setQuery({ node: node.id === chosen ? undefined : node.id })}
      />
    </section>
  );
}
