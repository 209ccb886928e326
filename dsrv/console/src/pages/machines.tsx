// /n/NAMESPACE/machines
import { call } from "../api/call";
import type { MachineJson } from "../api/types";
import { Do } from "../parts/act";
import { Empty, Head, Panel, Waiting } from "../parts/bits";
import { List, type Column } from "../parts/list";
import { startOf } from "../parts/start";
import { Id, Link, None, State, Text, Time } from "../parts/text";
import { useLoad } from "../state/load";
import { usePages } from "../state/pages";
import { go, namespace, query, setQuery, to } from "../state/route";
import { capital, count, percent } from "../text/words";
import { machinesAsked, overviewTopic } from "./asks";

export function MachinesPage() {
  const kind = query.value.get("kind") ?? "";
  const like = query.value.get("like") ?? "";
  const list = usePages<MachineJson>(
    async (pageToken, signal) => {
      const reply = await call("RunnerService", "ListMachines", machinesAsked(pageToken), signal);
      return { rows: reply.machines ?? [], next: reply.nextPageToken };
    },
    [namespace.value],
  );
  const hour = useLoad(
    (signal) => call("ViewService", "GetOverview", overviewTopic().overview, signal),
    [namespace.value],
    10_000,
  );
  const failed = new Map((hour.data?.machines ?? []).map((row) => [row.id, row.failedHour]));
  const rows = list.rows?.filter((machine) => (!kind || machine.kind === kind) && machine.id!.includes(like));
  const stat = (
    name: "running" | "scheduled" | "paused" | "stopped",
    narrow = false,
  ): Column<MachineJson> => ({
    id: name,
    title: capital(name),
    number: true,
    narrow,
    cell: (machine) => count(machine.stats?.[name]),
  });
  const columns: Column<MachineJson>[] = [
    { id: "machine", title: "Machine", narrow: true, cell: (machine) => <Id of={machine.id} /> },
    { id: "version", lesser: 2, title: "Version", number: true, cell: (machine) => `v${machine.version}` },
    {
      id: "kind",
      lesser: 2,
      title: "Kind",
      cell: (machine) => (
        <>
          {machine.kind}
          {machine.retired && <span class="quiet"> retired</span>}
        </>
      ),
    },
    stat("running", true),
    stat("scheduled"),
    stat("paused"),
    stat("stopped"),
    {
      id: "failed",
      title: "Failed, 1 h",
      number: true,
      cell: (machine) =>
        Number(failed.get(machine.id) ?? 0) > 0 ? (
          <span class="is-error coloured">{count(failed.get(machine.id))}</span>
        ) : (
          <None>0</None>
        ),
    },
    {
      id: "retries",
      lesser: 3,
      title: "Retries",
      number: true,
      cell: (machine) => percent(machine.stats?.retryRate),
    },
    {
      id: "breaker",
      title: "Breaker",
      cell: (machine) =>
        machine.stats?.breaker && machine.stats.breaker !== "closed" ? (
          <State of={machine.stats.breaker} />
        ) : (
          <None>closed</None>
        ),
    },
    {
      id: "package",
      lesser: 2,
      title: "Package",
      cell: (machine) =>
        machine.package?.name ? (
          <Link to={to("packages", { name: machine.package.name })}>
            <Text of={`${machine.package.name} ${machine.package.version}`} />
          </Link>
        ) : (
          <None />
        ),
    },
    { id: "defined", lesser: 3, title: "Defined", cell: (machine) => <Time of={machine.defineTime} /> },
    {
      id: "start",
      keep: true,
      title: "",
      cell: (machine) =>
        machine.kind !== "action" && !machine.retired ? (
          <Do class="small" label="Start …" role="WORKER" action={() => startOf({ machine: machine.id! })} />
        ) : null,
    },
  ];
  return (
    <>
      <Head title="Machines">
        <Do
          label="Define …"
          role="OPERATOR"
          class="primary"
          action={() => {
            go(to("define"));
          }}
        />
      </Head>
      <div class="bar-row">
        <label class="inline">
          Kind{" "}
          <select value={kind} onChange={(event) => setQuery({ kind: event.currentTarget.value })}>
            <option value="">all</option>
            <option value="machine">machines</option>
            <option value="plan">plans</option>
            <option value="action">actions</option>
          </select>
        </label>
        <label class="inline">
          Name has <input value={like} onInput={(event) => setQuery({ like: event.currentTarget.value })} />
        </label>
      </div>
      <Waiting on={list} />
      {rows && (
        <Panel class="flush">
          <List
            name="Machines"
            rows={rows}
            columns={columns}
            rowKey={(machine) => machine.id!}
            link={(machine) => to("machines", machine.id!)}
            more={list.next ? list.more : undefined}
            empty={
              kind || like ? (
                <Empty title="None has this kind and name." />
              ) : (
                <Empty title="Nothing is defined yet." command="dcli define machines/order.fsm.yaml">
                  Write one on the page <Link to={to("define")}>Define</Link>, or:
                </Empty>
              )
            }
          />
        </Panel>
      )}
    </>
  );
}
