// /n/NAMESPACE/queues
import type { QueueRowJson } from "../api/types";
import { Empty } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { Id, Link, None, Time } from "../parts/text";
import { useWatch } from "../state/load";
import { watchedList } from "../state/pages";
import { query, setQuery, to } from "../state/route";
import { term } from "../text/filter";
import { count, duration } from "../text/words";
import { queuesTopic } from "./asks";

const COLUMNS: Column<QueueRowJson>[] = [
  { id: "queue", title: "Queue", narrow: true, cell: (row) => <Id of={row.queue} /> },
  {
    id: "node",
    title: "Node",
    narrow: true,
    cell: (row) => (
      <Link to={to("machines", row.machine!, { node: row.node })}>
        <Id of={`${row.machine} · ${row.node}`} />
      </Link>
    ),
  },
  {
    id: "ready",
    title: "Ready",
    number: true,
    narrow: true,
    cell: (row) =>
      Number(row.ready ?? 0) > 0 ? (
        <Link
          to={to("instances", { q: `${term("machine", row.machine!)} ${term("node", row.node!)} is:ready` })}
        >
          {count(row.ready)}
        </Link>
      ) : (
        <None>0</None>
      ),
  },
  { id: "oldest", title: "Oldest", number: true, cell: (row) => duration(row.oldestReady) || <None /> },
  { id: "claimed", title: "Claimed", number: true, cell: (row) => count(row.claimed) },
  {
    id: "back",
    lesser: 2,
    title: "Held back",
    number: true,
    cell: (row) => (Number(row.heldBack ?? 0) > 0 ? count(row.heldBack) : <None>0</None>),
  },
  {
    id: "asking",
    title: "Asking now",
    number: true,
    narrow: true,
    cell: (row) =>
      Number(row.asking ?? 0) > 0 ? (
        count(row.asking)
      ) : Number(row.ready ?? 0) > 0 ? (
        <span class="late">nobody</span>
      ) : (
        <None>nobody</None>
      ),
  },
  { id: "asked", lesser: 2, title: "Last asked", cell: (row) => <Time of={row.askedTime} /> },
  {
    id: "rate",
    lesser: 2,
    title: "Claims a second",
    number: true,
    cell: (row) => (row.claimsPerSecond ? Number(row.claimsPerSecond).toFixed(1) : <None>0</None>),
  },
  { id: "action", lesser: 3, title: "Action", cell: (row) => <Id of={row.action} /> },
];

export function QueuesPage() {
  const machine = query.value.get("machine") ?? "";
  const queue = query.value.get("queue") ?? "";
  const list = watchedList(
    useWatch<QueueRowJson[]>(
      queuesTopic(),
      (message) => message.queues && (message.queues.queues ?? []),
    ),
  );
  return (
    <ListPage
      title="Queues"
      list={list}
      columns={COLUMNS}
      rowKey={(row) => `${row.queue} ${row.machine} ${row.node}`}
      about="Work that is ready, by queue and node, and who asks for it."
      tone={(row) => (Number(row.ready ?? 0) > 0 && Number(row.asking ?? 0) === 0 ? "bad" : undefined)}
      above={
        <div class="bar-row">
          <label class="inline">
            Machine{" "}
            <input
              value={machine}
              placeholder="all"
              onChange={(event) => setQuery({ machine: event.currentTarget.value })}
            />
          </label>
          <label class="inline">
            Queue{" "}
            <input
              value={queue}
              placeholder="all"
              onChange={(event) => setQuery({ queue: event.currentTarget.value })}
            />
          </label>
        </div>
      }
      empty={
        <Empty title="No work waits, and none did lately." command="dcli work MACHINE -- COMMAND">
          Rows appear once instances reach work nodes. A worker takes them:
        </Empty>
      }
    />
  );
}
