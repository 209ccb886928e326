// /n/NAMESPACE
import type { MachineRowJson, OverviewJson, SlowNodeJson, Trouble_KindJson, TroubleJson } from "../api/types";
import { Empty, Facts, Head, Panel, Waiting } from "../parts/bits";
import { Minutes } from "../parts/chart";
import { List, type Column } from "../parts/list";
import { usePortions } from "../parts/portions";
import { Id, Link, Mark, None, State, Text, Time } from "../parts/text";
import { useWatch } from "../state/load";
import { to } from "../state/route";
import { term } from "../text/filter";
import { bytes, capital, count, duration, percent, plural } from "../text/words";
import { overviewTopic } from "./asks";

const SAID: Record<Trouble_KindJson, [string, string, string]> = {
  KIND_UNSPECIFIED: ["", "trouble", "pending"],
  HELD: ["Held", "failed steps wait for somebody", "held"],
  FAILING: ["Failing", "ended with an error in the last hour", "error"],
  UNSERVED: ["Unserved", "ready, and nobody asks for such work", "warning"],
  BACKLOG: ["Backlog", "ready for far longer than the work takes", "warning"],
  RETRYING: ["Retrying", "claims of the last minute were retries", "warning"],
  BREAKER: ["Breaker", "open: retries are held back", "error"],
  UNREPORTED: ["Unreported", "run at most once, and the worker is gone", "warning"],
  PERSON: ["Waits for a person", "manual nodes and suspended steps", "waiting"],
  AT_MAXIMUM: ["At its maximum", "the learned timeout stands at timeout_max", "warning"],
};

export function OverviewPage() {
  const { data, gone } = useWatch<OverviewJson>(overviewTopic(), (message) => message.overview);
  return (
    <>
      <Head title="Overview" />
      <Waiting on={{ data, refusal: gone }} />
      {data && <Overview of={data} />}
    </>
  );
}

function Overview({ of }: { of: OverviewJson }) {
  const machines = of.machines ?? [];
  const shown = machines.filter((row) => row.kind !== "action" || Number(row.now?.running ?? 0) > 0);
  const minutes = of.minutes ?? [];
  const drawn = usePortions(3, 1, { unseen: true }); // the lists below come after what is seen at once
  return (
    <div class="stack">
      {(of.missing ?? []).length > 0 && (
        <p class="notice warn">
          Did not answer, so that what they know is not in it: {of.missing!.join(", ")}
        </p>
      )}
      <Tallies of={of} />
      {machines.length === 0 ? (
        <Panel>
          <Empty title="Nothing is defined here yet." command="dcli define machines/crawler.fsm.yaml">
            Write a machine on the page <Link to={to("define")}>Define</Link>, or load one from a shell:
          </Empty>
        </Panel>
      ) : (
        <>
          <Troubles of={of.troubles ?? []} />
          <div class="columns four">
            <Panel>
              <Minutes
                title="Ended"
                minutes={minutes}
                series={[
                  { name: "succeeded", state: "success", of: (minute) => minute.succeeded },
                  { name: "cancelled", state: "cancelled", of: (minute) => minute.cancelled },
                  { name: "failed", state: "error", of: (minute) => minute.failed },
                ]}
              />
            </Panel>
            <Panel>
              <Minutes
                title="Transitions"
                minutes={minutes}
                series={[{ name: "transitions", state: "claimed", of: (minute) => minute.transitions }]}
              />
            </Panel>
            <Panel>
              <Minutes
                title="Started"
                minutes={minutes}
                series={[{ name: "started", state: "ready", of: (minute) => minute.started }]}
              />
            </Panel>
            <Panel>
              <Minutes
                title="Timed out"
                minutes={minutes}
                series={[{ name: "timed out", state: "warning", of: (minute) => minute.timedOut }]}
              />
            </Panel>
          </div>
          {drawn > 1 && <Machines of={shown.slice(0, 20)} />}
          {drawn > 2 && (of.slow ?? []).length > 0 && <Slow of={of.slow!} />}
        </>
      )}
      {drawn > 2 && <Server of={of} />}
    </div>
  );
}

function Machines({ of }: { of: MachineRowJson[] }) {
  return (
    <Panel class="flush" title="Machines" aside={<Link to={to("machines")}>All</Link>}>
      <List
        name="Machines"
        rows={of}
        columns={MACHINES}
        rowKey={(row) => row.id!}
        link={(row) => to("machines", row.id!)}
      />
    </Panel>
  );
}

function Slow({ of }: { of: SlowNodeJson[] }) {
  return (
    <Panel class="flush" title="Where the time goes, of the last hour">
      <List
        name="Slowest nodes"
        rows={of}
        columns={SLOW}
        rowKey={(row) => `${row.machine}.${row.node}`}
        link={(row) => to("machines", row.machine!, { node: row.node })}
      />
    </Panel>
  );
}

function Tallies({ of }: { of: OverviewJson }) {
  const now = of.now ?? {};
  const tiles: [string, string | undefined, string, string][] = [
    ["running", now.running, "running", "state:running"],
    ["ready", now.ready, "ready", "is:ready"],
    ["claimed", now.claimed, "claimed", "is:claimed"],
    ["waiting", now.waiting, "waiting", "is:waiting"],
    ["held", now.held, "held", "is:held"],
    ["paused", now.paused, "paused", "state:paused"],
    ["scheduled", now.scheduled, "scheduled", "state:scheduled"],
    ["stopped", now.stopped, "stopped", "state:stopped"],
  ];
  return (
    <ul class="tiles">
      {tiles.map(([name, value, state, filter]) => (
        <li key={name}>
          <Link
            to={to("instances", { q: filter })}
            class={`tile is-${state} ${Number(value ?? 0) > 0 ? "" : "zero"}`}
          >
            <b>{count(value)}</b>
            <span>
              <Mark state={state} />
              {name}
            </span>
            {name === "ready" && now.oldestReady && <small>oldest {duration(now.oldestReady)}</small>}
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Troubles({ of }: { of: TroubleJson[] }) {
  if (of.length === 0)
    return (
      <p class="all-well">
        <Mark state="success" />
        Nothing waits for anybody, and nothing goes badly.
      </p>
    );
  return (
    <Panel title={plural(of.length, "trouble")} class="troubles">
      <ul class="plain">
        {of.map((trouble) => (
          <One key={`${trouble.kind} ${trouble.machine} ${trouble.node} ${trouble.queue}`} of={trouble} />
        ))}
      </ul>
    </Panel>
  );
}

function One({ of }: { of: TroubleJson }) {
  const [name, said, state] = SAID[of.kind ?? "KIND_UNSPECIFIED"];
  return (
    <li class={`trouble is-${state}`}>
      <div class="line">
        <b class="state">
          <Mark state={state} />
          {name}
        </b>
        <span>
          <Link to={to("machines", of.machine ?? "", { node: of.node })}>
            <Id of={[of.machine, of.node].filter((part) => part).join(" · ")} />
          </Link>{" "}
          <Link to={to("instances", { q: of.filter })} class="count">
            {count(of.count)}
          </Link>{" "}
          <span class="quiet">
            {said}
            {of.queue && (
              <>
                , queue <Id of={of.queue} />
              </>
            )}
          </span>
        </span>
        <span class="quiet since">
          since <Time of={of.since} />
        </span>
      </div>
      {(of.errors ?? []).length > 0 && (
        <ul class="plain errors">
          {of.errors!.map((error) => (
            <li key={error.text}>
              <b>{count(error.count)}</b> <Text of={error.text} most={200} />{" "}
              <span class="quiet">
                last <Time of={error.last} /> at{" "}
                <Link to={to("instances", error.instance ?? "")}>
                  <Id of={error.instance} />
                </Link>
              </span>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

const MACHINES: Column<MachineRowJson>[] = [
  {
    id: "machine",
    title: "Machine",
    narrow: true,
    cell: (row) => (
      <>
        <Id of={row.id} /> <span class="quiet">v{row.version}</span>
      </>
    ),
  },
  { id: "kind", lesser: 3, title: "Kind", cell: (row) => row.kind },
  ...(["running", "ready", "claimed", "waiting", "held", "paused"] as const).map(
    (name): Column<MachineRowJson> => ({
      id: name,
      title: capital(name),
      lesser: name === "paused" ? 2 : 1,
      number: true,
      narrow: name === "running" || name === "held",
      cell: (row) => {
        const value = row.now?.[name];
        const filter = `${term("machine", row.id!)} ${name === "running" || name === "paused" ? `state:${name}` : `is:${name}`}`;
        return Number(value ?? 0) > 0 ? (
          <Link to={to("instances", { q: filter })} class={`is-${name} coloured`}>
            {count(value)}
          </Link>
        ) : (
          <None>0</None>
        );
      },
    }),
  ),
  { id: "started", title: "Started, 1 h", number: true, cell: (row) => count(row.startedHour) },
  {
    id: "failed",
    title: "Failed, 1 h",
    number: true,
    cell: (row) =>
      Number(row.failedHour ?? 0) > 0 ? (
        <Link
          to={to("instances", { q: `${term("machine", row.id!)} result:error,aborted ended:-1h..` })}
          class="is-error coloured"
        >
          {count(row.failedHour)}
        </Link>
      ) : (
        <None>0</None>
      ),
  },
  { id: "retries", title: "Retries", number: true, cell: (row) => percent(row.retryRate) },
  {
    id: "breaker",
    title: "Breaker",
    cell: (row) =>
      row.breaker && row.breaker !== "closed" ? <State of={row.breaker} /> : <None>closed</None>,
  },
];

const SLOW: Column<SlowNodeJson>[] = [
  { id: "node", title: "Node", narrow: true, cell: (row) => <Id of={`${row.machine} · ${row.node}`} /> },
  { id: "spent", title: "Spent", number: true, narrow: true, cell: (row) => duration(row.spentHour) },
  { id: "completed", title: "Ended", number: true, cell: (row) => count(row.completedHour) },
  { id: "p50", title: "p50", number: true, cell: (row) => duration(row.p50) },
  { id: "p95", title: "p95", number: true, narrow: true, cell: (row) => duration(row.p95) },
  { id: "timeout", title: "Timeout now", number: true, cell: (row) => duration(row.timeoutNow) || <None /> },
];

function Server({ of }: { of: OverviewJson }) {
  const server = of.server ?? {};
  return (
    <div class="columns">
      {(of.queues ?? []).length > 0 && (
        <Panel title="Queues" aside={<Link to={to("queues")}>All</Link>}>
          <Facts
            rows={of
              .queues!.slice(0, 8)
              .map((queue) => [
                queue.queue ?? "",
                `${count(queue.ready)} ready${queue.oldestReady ? `, the oldest for ${duration(queue.oldestReady)}` : ""}`,
              ])}
          />
        </Panel>
      )}
      {(of.limits ?? []).length > 0 && (
        <Panel title="Limits that are nearly full" aside={<Link to={to("limits")}>All</Link>}>
          <ul class="plain">
            {of.limits!.slice(0, 8).map((limit) => (
              <li key={limit.key}>
                <Link to={to("limits", { name: limit.key })}>
                  <Id of={limit.key} />
                </Link>{" "}
                {count(limit.held)}
                {limit.max !== undefined ? ` of ${count(limit.max)}` : ""} held, {count(limit.waiting)}{" "}
                waiting
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <Panel title="Server">
        <Facts
          rows={[
            [
              "Version",
              <Text
                of={`${server.version}${server.state && server.state !== "serving" ? `, ${server.state}` : ""}`}
              />,
            ],
            ["Up since", <Time of={server.startTime} />],
            [
              "Room",
              server.room && (
                <span class={server.room === "ample" ? "" : "late"}>
                  {server.room}, {bytes(server.freeBytes)} free
                </span>
              ),
            ],
            ["Store", bytes(server.storeBytes)],
            ["Commit p95", duration(server.commitP95) || <None />],
            [
              "Feed",
              <Link
                to={to("feed")}
              >{`${count(server.firstSeq)} to ${count(server.lastSeq)}, ${plural(server.watchers, "watcher")}`}</Link>,
            ],
            [
              "Workers",
              <Link to={to("workers")}>{`${count(of.workers)}, of them ${plural(of.agents, "agent")}`}</Link>,
            ],
            [
              "Certificate",
              server.tlsExpireTime && (
                <>
                  ends <Time of={server.tlsExpireTime} />
                </>
              ),
            ],
            [
              "Backup",
              server.backup && (
                <>
                  {server.backup.lastTime ? <Time of={server.backup.lastTime} /> : "none yet"}
                  {server.backup.error && (
                    <span class="late">
                      {" "}
                      <Text of={server.backup.error} />
                    </span>
                  )}
                </>
              ),
            ],
            ["Open files", server.maxFiles && `${count(server.openFiles)} of ${count(server.maxFiles)}`],
          ]}
        />
      </Panel>
    </div>
  );
}
