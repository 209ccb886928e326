// The versions of a machine: which is shown, how many instances each has, what differs.
import { call } from "../api/call";
import type { MachineJson } from "../api/types";
import { compare, edgeKey } from "../graph/compare";
import { Empty, Panel, Refused } from "../parts/bits";
import { Difference } from "../parts/editor";
import { GraphView } from "../parts/graph";
import { List, type Column } from "../parts/list";
import { Link, Time } from "../parts/text";
import { useLoad } from "../state/load";
import { namespace, query, setQuery, to } from "../state/route";
import { term } from "../text/filter";
import { capital, count } from "../text/words";

const MOST_VERSIONS = 20;

export function Versions({ machine, chosen }: { machine: MachineJson; chosen: number }) {
  const latest = useLoad(
    (signal) => call("RunnerService", "GetMachine", { namespace: namespace.value, id: machine.id }, signal),
    [machine.id, machine.version],
  );
  const last = Math.max(latest.data?.version ?? 0, machine.version ?? 0);
  if (last < 2) return <span class="quiet">v{machine.version}</span>;
  return (
    <label class="inline">
      Version{" "}
      <select
        value={chosen || last}
        onChange={(event) => {
          const wanted = Number(event.currentTarget.value);
          setQuery({ version: wanted === last ? undefined : wanted }, true);
        }}
      >
        {Array.from({ length: Math.min(last, 200) }, (_, i) => last - i).map((one) => (
          <option key={one} value={one}>
            v{one}
            {one === last ? ", the latest" : ""}
          </option>
        ))}
      </select>
    </label>
  );
}

// The instances of each version, the newest first.
export function OfVersions({ machine }: { machine: MachineJson }) {
  const last = machine.version ?? 1;
  const loaded = useLoad(
    (signal) =>
      Promise.all(
        Array.from({ length: Math.min(last, MOST_VERSIONS) }, (_, i) =>
          call(
            "RunnerService",
            "GetMachine",
            { namespace: namespace.value, id: machine.id, version: last - i },
            signal,
          ),
        ),
      ),
    [machine.id, last],
    5000,
  );
  const columns: Column<MachineJson>[] = [
    { id: "version", title: "Version", narrow: true, cell: (one) => `v${one.version}` },
    ...(["running", "scheduled", "paused", "stopped"] as const).map((name): Column<MachineJson> => ({
      id: name,
      title: capital(name),
      number: true,
      narrow: name !== "scheduled",
      cell: (one) => (
        <Link to={to("instances", { q: `${term("machine", one.id!)} version:${one.version} state:${name}` })}>
          {count(one.stats?.[name])}
        </Link>
      ),
    })),
    { id: "upgrades", title: "Upgrades", cell: (one) => one.upgradeStrategy },
    { id: "defined", title: "Defined", cell: (one) => <Time of={one.defineTime} /> },
  ];
  return (
    <>
      <Refused refusal={loaded.refusal} />
      {loaded.data && (
        <Panel class="flush">
          <List
            name="Versions"
            rows={loaded.data}
            columns={columns}
            rowKey={(one) => String(one.version)}
            link={(one) => to("machines", one.id!, { version: one.version })}
          />
        </Panel>
      )}
      {last > MOST_VERSIONS && (
        <p class="quiet">
          The newest {MOST_VERSIONS} of {count(last)}.
        </p>
      )}
    </>
  );
}

export function Compare({ machine }: { machine: MachineJson }) {
  const own = machine.version ?? 1;
  const other = Number(query.value.get("compare") ?? Math.max(1, own - 1));
  const before = useLoad(
    (signal) =>
      call(
        "RunnerService",
        "GetMachine",
        { namespace: namespace.value, id: machine.id, version: other },
        signal,
      ),
    [machine.id, other],
  );
  if (own === 1 && other === 1)
    return (
      <Panel>
        <Empty title="There is one version so far.">
          Define other content under the same id: it becomes the next.
        </Empty>
      </Panel>
    );
  const compared = before.data && compare(before.data.nodes ?? [], machine.nodes ?? []);
  const tone = { added: "SUCCESS", gone: "ERROR", changed: "WARNING", same: undefined };
  return (
    <div class="stack">
      <p>
        <label class="inline">
          v{own} compared with{" "}
          <select value={other} onChange={(event) => setQuery({ compare: event.currentTarget.value }, true)}>
            {Array.from({ length: Math.min(own + 5, 200) }, (_, i) => i + 1)
              .filter((one) => one <= Math.max(own, other))
              .map((one) => (
                <option key={one} value={one}>
                  v{one}
                </option>
              ))}
          </select>
        </label>
      </p>
      <Refused refusal={before.refusal} />
      {before.data && (
        <Difference
          before={before.data.source ?? ""}
          after={machine.source ?? ""}
          titles={[`v${other}`, `v${own}`]}
        />
      )}
      {compared && compared.graph.boxes.length <= 500 && (
        <GraphView
          graph={compared.graph}
          name="Differences"
          seen={(box) => ({
            tone: tone[compared.boxes.get(box.id)!],
            note: compared.boxes.get(box.id) === "same" ? "" : compared.boxes.get(box.id),
          })}
          edgeTone={(edge) => compared.edges.get(edgeKey(edge))}
        />
      )}
    </div>
  );
}
