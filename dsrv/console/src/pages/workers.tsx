// /n/NAMESPACE/workers: whoever takes work, and agents with what runs on them.
import { call } from "../api/call";
import type { AgentJson, EvictAgentResponseJson, WorkerRowJson } from "../api/types";
import { Do, sent, tell, type Action } from "../parts/act";
import { Empty, Facts, Head, Refused, Tabs, tabOf } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { Id, Left, Link, None, State, Text, Time } from "../parts/text";
import { useLoad, useWatch } from "../state/load";
import { usePages, watchedList } from "../state/pages";
import { namespace, to } from "../state/route";
import { clean } from "../text/clean";
import { term } from "../text/filter";
import { argument } from "../text/shell";
import { bytes, count, percent, plural, word } from "../text/words";
import { agentsAsked, workersTopic } from "./asks";

const TABS = [
  { id: "workers", title: "Workers" },
  { id: "agents", title: "Agents" },
];

export function WorkersPage() {
  const tab = tabOf(TABS);
  return (
    <>
      <Head title="Workers" about="Whoever claimed, polled or streamed within 15 minutes, and agents." />
      <Tabs tabs={TABS} of={tab} clear={["name"]} />
      {tab === "workers" ? <Workers /> : <Agents />}
    </>
  );
}

const WORKERS: Column<WorkerRowJson>[] = [
  {
    id: "worker",
    title: "Worker",
    narrow: true,
    cell: (row) => (
      <Link to={to("instances", { q: term("worker", row.worker!) })}>
        <Text of={row.worker} most={50} />
      </Link>
    ),
  },
  { id: "how", lesser: 2, title: "How", cell: (row) => row.how },
  { id: "address", lesser: 3, title: "Address", cell: (row) => <Id of={row.address} /> },
  {
    id: "hand",
    title: "In hand",
    number: true,
    narrow: true,
    cell: (row) => `${count(row.inHand)}${Number(row.capacity ?? 0) > 0 ? ` of ${count(row.capacity)}` : ""}`,
  },
  { id: "done", title: "Done, 1 h", number: true, narrow: true, cell: (row) => count(row.doneHour) },
  {
    id: "failed",
    title: "Failed",
    number: true,
    cell: (row) =>
      Number(row.failedHour ?? 0) > 0 ? (
        <span class="is-error coloured">{count(row.failedHour)}</span>
      ) : (
        <None>0</None>
      ),
  },
  { id: "late", lesser: 2, title: "Timed out", number: true, cell: (row) => count(row.timedOutHour) },
  { id: "stale", lesser: 3, title: "Stale", number: true, cell: (row) => count(row.staleHour) },
  { id: "seen", title: "Seen", cell: (row) => <Time of={row.seenTime} /> },
  {
    id: "asks",
    title: "Asks for",
    grow: true,
    cell: (row) => (
      <span class="mono">
        <Text of={row.asksFor} most={120} />
      </span>
    ),
  },
];

function Workers() {
  const list = watchedList(
    useWatch<WorkerRowJson[]>(
      workersTopic(),
      (message) => message.workers && (message.workers.workers ?? []),
    ),
  );
  return (
    <ListPage
      bare
      title="Workers"
      list={list}
      columns={WORKERS}
      rowKey={(row) => `${row.worker} ${row.address} ${row.how}`}
      empty={
        <Empty title="Nobody has asked for work." command="dcli work MACHINE -- COMMAND">
          A worker is any program that claims tasks. The simplest:
        </Empty>
      }
    />
  );
}

function drain(agent: AgentJson, undo: boolean): Action {
  return {
    title: `${undo ? "Undrain" : "Drain"} ${clean(agent.name ?? "")}`,
    verb: undo ? "Undrain" : "Drain",
    about: undo
      ? "It is handed out work again."
      : "It is handed out nothing more and finishes what it has. This holds over restarts, until it is undone.",
    fields: undo ? [] : [{ name: "reason", label: "Reason", hint: "Shown beside it." }],
    send: ({ reason }) =>
      sent("AgentService", "DrainAgent", { namespace: namespace.value, name: agent.name, undo, reason }),
    dcli: () => ["agents", undo ? "undrain" : "drain", argument(agent.name)],
  };
}

function evict(agent: AgentJson): Action {
  return {
    title: `Evict ${clean(agent.name ?? "")}`,
    verb: "Evict",
    danger: true,
    about:
      "For a machine that is gone, or has to go: all it has in hand is killed and ready for others at once, but for what runs at most once.",
    send: () => sent("AgentService", "EvictAgent", { namespace: namespace.value, name: agent.name }),
    dcli: () => ["agents", "evict", argument(agent.name)],
    done: (reply: EvictAgentResponseJson) =>
      tell(`Evicted: ${plural(reply.givenBack, "task")} given back, ${count(reply.kept)} kept.`),
  };
}

const AGENTS: Column<AgentJson>[] = [
  { id: "agent", title: "Agent", narrow: true, cell: (agent) => <Id of={agent.name} /> },
  { id: "state", title: "State", narrow: true, cell: (agent) => <State of={agent.state} /> },
  {
    id: "slots",
    title: "Slots",
    number: true,
    narrow: true,
    cell: (agent) => `${count(agent.inHand)} of ${count(agent.slots)}`,
  },
  { id: "host", title: "Host", cell: (agent) => <Text of={agent.host?.hostname} most={40} /> },
  {
    id: "packages",
    title: "Packages",
    cell: (agent) => (
      <Text of={(agent.packages ?? []).map((name) => (name === "*" ? "any" : name)).join(", ")} most={40} />
    ),
  },
  { id: "done", title: "Done", number: true, cell: (agent) => count(agent.done) },
  { id: "failed", title: "Failed", number: true, cell: (agent) => count(agent.failed) },
  { id: "seen", title: "Seen", cell: (agent) => <Time of={agent.lastSeen} /> },
  {
    id: "why",
    title: "Drained because",
    grow: true,
    cell: (agent) => <Text of={agent.drainReason} most={80} />,
  },
];

function Agents() {
  const list = usePages<AgentJson>(
    async (pageToken, signal) => {
      const reply = await call("AgentService", "ListAgents", agentsAsked(pageToken), signal);
      return { rows: reply.agents ?? [], next: reply.nextPageToken };
    },
    [namespace.value],
  );
  return (
    <ListPage
      bare
      title="Agents"
      list={list}
      columns={AGENTS}
      rowKey={(agent) => agent.name!}
      detail={(_, name) => <OneAgent name={name} />}
      empty={
        <Empty title="No agent is connected." command="dcli agent --name build-1 --packages '*'">
          An agent runs the operations of packages on its machine:
        </Empty>
      }
    />
  );
}

function OneAgent({ name }: { name: string }) {
  const loaded = useLoad(
    (signal) => call("AgentService", "GetAgent", { namespace: namespace.value, name }, signal),
    [namespace.value, name],
    2000,
  );
  const agent = loaded.data;
  if (!agent || agent.name !== name) return <Refused refusal={loaded.refusal} />;
  return (
    <>
      <p class="actions">
        <Do
          class="small"
          label={agent.drainRequested ? "Undrain" : "Drain"}
          role="OPERATOR"
          action={() => drain(agent, !!agent.drainRequested)}
        />
        <Do class="small" label="Evict" role="OPERATOR" action={() => evict(agent)} />
      </p>
      <Facts
        rows={[
          ["State", <State of={agent.state} />],
          [
            "Host",
            agent.host && <Text of={`${agent.host.hostname}, ${agent.host.os}, ${agent.host.arch}`} />,
          ],
          [
            "May use",
            agent.host &&
              `${plural(agent.host.cpus, "cpu")}, ${bytes(agent.host.memory)}${agent.host.cgroups ? "" : ", without cgroups"}`,
          ],
          ["Version", agent.version && <Text of={agent.version} />],
          ["Address", agent.address && <Id of={agent.address} />],
          ["Connected", agent.connectTime && <Time of={agent.connectTime} />],
          ["Queues", (agent.queues ?? []).join(", ")],
          ["Can", (agent.capabilities ?? []).join(", ")],
          ["Abandoned", agent.abandoned && count(agent.abandoned)],
        ]}
      />
      {(agent.operations ?? []).length > 0 && (
        <>
          <h3>In hand</h3>
          <ul class="plain">
            {agent.operations!.map((one) => (
              <li key={`${one.instance} ${one.node} ${one.attempt}`} class="claim">
                <Link to={to("instances", one.instance!)}>
                  <Id of={one.instance} />
                </Link>{" "}
                at <Id of={one.node} />
                <p class="quiet">
                  {one.beginTime ? (
                    <>
                      since <Time of={one.beginTime} />
                    </>
                  ) : (
                    "not begun"
                  )}{" "}
                  · <Left until={one.deadline} />
                  {one.progress ? ` · ${percent(one.progress)}` : ""}
                  {one.order && one.order !== "MODE_UNSPECIFIED" ? ` · told to ${word(one.order)}` : ""}
                  {one.leftover ? " · left behind" : ""}
                </p>
                {one.note && (
                  <p>
                    <Text of={one.note} />
                  </p>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {(agent.refuses ?? []).length > 0 && (
        <>
          <h3>Refuses</h3>
          <ul class="plain">
            {agent.refuses!.map((one) => (
              <li key={`${one.machine} ${one.node}`}>
                <Id of={`${one.machine} · ${one.node}`} />: <Text of={one.reason} />
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
