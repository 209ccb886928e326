// /n/NAMESPACE/machines/ID?version=&node=&compare=
import { useMemo, useState } from "preact/hooks";
import type { ChangeJson, MachineJson, NodeJson } from "../api/types";
import { grouped } from "../graph/groups";
import { graphOfNodes, graphOfSteps, type Box, type Graph } from "../graph/model";
import { Do } from "../parts/act";
import { Empty, Facts, Gone, Head, Panel, Tabs, tabOf, type Tab } from "../parts/bits";
import { GraphView, Legend, useGraph, type Move, type Seen } from "../parts/graph";
import { List, type Column } from "../parts/list";
import { startOf } from "../parts/start";
import { Id, Link, None, State, Text, Time } from "../parts/text";
import { useWatch } from "../state/load";
import { go, parts, query, setQuery, to } from "../state/route";
import { cleanLines } from "../text/clean";
import { term } from "../text/filter";
import { capital, count, duration, percent } from "../text/words";
import { machineTopic, movesTopic } from "./asks";
import { NodeDurations } from "./durations";
import { Compare, OfVersions, Versions } from "./versions";

const RECENT = 3000;
const TABS: Tab[] = [
  { id: "graph", title: "Graph" },
  { id: "source", title: "Source" },
  { id: "versions", title: "Versions" },
  { id: "compare", title: "Compare" },
];

function useMoves(id: string): Move[] {
  const { data } = useWatch<ChangeJson[]>(
    movesTopic(id),
    (message, before) => {
      const since = Date.now() - RECENT;
      return [
        ...(before ?? []).filter((change) => Date.parse(change.time!) > since),
        ...(message.news?.changes ?? []),
      ].slice(-300);
    },
  );
  return (data ?? []).map((change) => ({
    id: change.seq!,
    from: change.prevNode ?? "",
    to: change.node ?? "",
  }));
}

export function MachinePage() {
  const id = parts.value[3]!;
  const version = Number(query.value.get("version") ?? 0);
  const { data: machine, gone } = useWatch<MachineJson>(machineTopic(id), (message) => message.machine);
  const tab = tabOf(TABS);
  useGraph(tab === "graph");
  if (gone && !machine) {
    return (
      <Gone of={id} refusal={gone}>
        <Link to={to("machines")}>All machines</Link>
      </Gone>
    );
  }
  if (!machine) return <p class="waiting">Loading …</p>;
  const startable = machine.kind !== "action" && !machine.retired;
  return (
    <>
      <Head
        title={<Id of={machine.id} />}
        about={
          <>
            {machine.kind}, defined <Time of={machine.defineTime} />
            {machine.package?.name && (
              <>
                , of the package{" "}
                <Link to={to("packages", { name: machine.package.name })}>
                  <Text of={`${machine.package.name} ${machine.package.version}`} />
                </Link>
              </>
            )}
            {machine.retired && ", retired: its package no longer has it"}
          </>
        }
      >
        <Versions machine={machine} chosen={version} />
        <Do
          label="Edit"
          role="VIEWER"
          action={() => {
            go(to("define", { machine: machine.id }));
          }}
        />
        {startable && (
          <Do
            label="Start …"
            role="WORKER"
            class="primary"
            action={() => startOf({ machine: machine.id!, version: version || undefined })}
          />
        )}
      </Head>
      {machine.kind !== "action" && (
        <Panel class="above">
          <Numbers of={machine} />
        </Panel>
      )}
      <Tabs tabs={TABS} of={tab} clear={["node"]} />
      <div role="tabpanel" aria-label={tab}>
        {tab === "graph" && <LiveGraph machine={machine} />}
        {tab === "source" && (
          <Panel>
            <pre class="code tall">{cleanLines(machine.source ?? "")}</pre>
          </Panel>
        )}
        {tab === "versions" && <OfVersions machine={machine} />}
        {tab === "compare" && <Compare machine={machine} />}
      </div>
    </>
  );
}

function Numbers({ of }: { of: MachineJson }) {
  const stats = of.stats ?? {};
  const filter = (state: string) =>
    to("instances", { q: `${term("machine", of.id!)} version:${of.version} state:${state}` });
  const states = ["running", "scheduled", "paused", "stopped"] as const;
  return (
    <Facts
      rows={[
        ...states.map((name): [string, preact.JSX.Element] => [
          name[0]!.toUpperCase() + name.slice(1),
          <Link to={filter(name)}>{count(stats[name])}</Link>,
        ]),
        ["Retries", percent(stats.retryRate)],
        ["Breaker", stats.breaker && <State of={stats.breaker} />],
        ["Upgrades", of.upgradeStrategy],
      ]}
    />
  );
}

const COUNTED = [
  ["READY", "ready"],
  ["CLAIMED", "claimed"],
  ["WAITING", "waiting"],
  ["HELD", "held"],
] as const;

function seenOf(node: NodeJson | undefined): Seen {
  const stats = node?.stats ?? {};
  const badges = COUNTED.filter(([, name]) => Number(stats[name] ?? 0) > 0).map(([state, name]) => ({
    state,
    text: count(stats[name]),
  }));
  return {
    badges,
    note: stats.p95 ? `p95 ${duration(stats.p95)}` : undefined,
    tone: Number(stats.held ?? 0) > 0 ? "HELD" : undefined,
  };
}

function LiveGraph({ machine }: { machine: MachineJson }) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [stands, setStands] = useState(false);
  const flow = machine.kind === "plan" && query.value.get("as") !== "nodes";
  const chosen = query.value.get("node") ?? undefined;
  const nodes = (machine.nodes ?? []).filter((node) => node.kind !== "system");
  const shape = JSON.stringify([machine.id, machine.version, flow, [...open]]);
  const graph = useMemo(
    () => grouped(flow && machine.steps?.length ? graphOfSteps(machine.steps) : graphOfNodes(nodes), open),
    [shape],
  );
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const choose = (box: Box) => {
    if (box.kind === "group") setOpen(new Set([...open, box.id]));
    else setQuery({ node: box.id === chosen ? undefined : box.id });
  };
  if (nodes.length === 0)
    return (
      <Panel>
        <Empty title="An action has no nodes of its own.">
          Plans make a node of each step that names it.
        </Empty>
      </Panel>
    );
  return (
    <div class={chosen ? "with-side" : ""}>
      <div class="stack">
        {machine.kind === "plan" && (
          <p>
            <label class="inline">
              Shown as{" "}
              <select
                value={flow ? "flow" : "nodes"}
                onChange={(event) =>
                  setQuery({
                    as: event.currentTarget.value === "nodes" ? "nodes" : undefined,
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
          <MovingGraph
            machine={machine.id!}
            graph={graph}
            chosen={chosen}
            choose={choose}
            seen={(box) => seenOf(byId.get(box.id))}
            stands={() => setStands(true)}
          />
          <Legend states={["READY", "CLAIMED", "WAITING", "HELD"]} />
        </div>
        {stands && (
          <Panel class="flush">
            <List
              name="Nodes"
              rows={nodes}
              columns={nodeColumns(machine)}
              rowKey={(node) => node.id!}
              opened={chosen}
              open={(node) => setQuery({ node: node.id === chosen ? undefined : node.id })}
            />
          </Panel>
        )}
      </div>
      {chosen && <NodeDetails machine={machine} node={byId.get(chosen)} />}
    </div>
  );
}

// Of its own, so that what moves draws nothing else anew.
function MovingGraph({
  machine,
  ...props
}: {
  machine: string;
  graph: Graph;
  chosen?: string;
  choose: (box: Box) => void;
  seen: (box: Box) => Seen;
  stands: () => void;
}) {
  return <GraphView {...props} name={`The graph of ${machine}`} moves={useMoves(machine)} />;
}

function nodeColumns(machine: MachineJson): Column<NodeJson>[] {
  return [
    { id: "node", title: "Node", narrow: true, cell: (node) => <Id of={node.id} /> },
    { id: "kind", lesser: 2, title: "Kind", cell: (node) => `${node.kind}${node.start ? ", start" : ""}` },
    ...COUNTED.map(([, name]): Column<NodeJson> => ({
      id: name,
      title: capital(name),
      number: true,
      narrow: name !== "waiting",
      cell: (node) =>
        Number(node.stats?.[name] ?? 0) > 0 ? (
          <Link
            to={to("instances", {
              q: `${term("machine", machine.id!)} ${term("node", node.id!)} is:${name}`,
            })}
          >
            {count(node.stats![name])}
          </Link>
        ) : (
          <None>0</None>
        ),
    })),
    {
      id: "completed",
      lesser: 2,
      title: "Completed",
      number: true,
      cell: (node) => count(node.stats?.completed),
    },
    { id: "late", lesser: 2, title: "Timed out", number: true, cell: (node) => count(node.stats?.timedOut) },
    {
      id: "p50",
      lesser: 3,
      title: "p50",
      number: true,
      cell: (node) => duration(node.stats?.p50) || <None />,
    },
    { id: "p95", title: "p95", number: true, cell: (node) => duration(node.stats?.p95) || <None /> },
    {
      id: "timeout",
      title: "Timeout now",
      number: true,
      cell: (node) => duration(node.stats?.timeoutNow) || <None />,
    },
    { id: "queue", lesser: 3, title: "Queue", cell: (node) => node.queue || <None /> },
  ];
}

function NodeDetails({ machine, node }: { machine: MachineJson; node: NodeJson | undefined }) {
  if (!node) return null;
  return (
    <Panel
      class="node-panel"
      title={<Id of={node.id} />}
      aside={
        <button type="button" class="icon" aria-label="Close" onClick={() => setQuery({ node: undefined })}>
          ×
        </button>
      }
    >
      <p>
        <Link to={to("instances", { q: `${term("machine", machine.id!)} ${term("node", node.id!)}` })}>
          Instances that stand here
        </Link>
      </p>
      <Facts
        rows={[
          ["Kind", node.kind],
          ["Action", node.action && <Id of={node.action} />],
          ["Queue", node.queue && <Id of={node.queue} />],
          [
            "Leads to",
            (node.transitions ?? []).map((edge) => (
              <div key={`${edge.transition}${edge.condition}`}>
                {edge.transition}
                {edge.condition ? ` if ${edge.condition}` : ""} → {(edge.targets ?? []).join(", ")}
              </div>
            )),
          ],
          ["Joins", node.join],
          [
            "Retries",
            node.retry?.limit && `${count(node.retry.limit)} tries, from ${duration(node.retry.delay)} apart`,
          ],
          ["Runs on", node.runsOn && (node.runsOn.capabilities ?? []).join(", ")],
          ["At most", node.runTimeout && duration(node.runTimeout)],
          ["Limits", (node.limits ?? []).join(", ")],
          ["No room", node.stats?.limited && count(node.stats.limited)],
        ]}
      />
      {node.kind === "work" && machine.kind !== "action" && (
        <NodeDurations machine={machine} node={node.id!} />
      )}
    </Panel>
  );
}
