// /n/NAMESPACE/instances/ID?tab=
import { useMemo } from "preact/hooks";
import { call } from "../../api/call";
import type { ChangeJson, InstanceJson, MachineJson } from "../../api/types";
import { Facts, Gone, Head, Panel, Tabs, tabOf, type Tab } from "../../parts/bits";
import { useGraph } from "../../parts/graph";
import { MachineOf } from "../../parts/instances";
import { Id, Left, Link, Lines, Mark, Progress, State, StateOf, Text, Time, Took } from "../../parts/text";
import { useLoad, useWatch } from "../../state/load";
import { namespace, parts, query, to } from "../../state/route";
import { term } from "../../text/filter";
import { sortedEntries } from "../../text/json";
import { dcliLine } from "../../text/shell";
import { count, plural, word } from "../../text/words";
import { instanceTopic, machineAsked } from "../asks";
import { ChildrenTab } from "./children";
import { Control, Next } from "./actions";
import { DataTab } from "./data";
import { GraphTab } from "./graph";
import { HistoryTab } from "./history";
import { LogsTab } from "./logs";
import { askForLevelAhead, StepsTab } from "./steps";
import { TimelineTab } from "./timeline";

const KEPT = 400;
const WITHOUT_MACHINE = ["history", "data", "logs"]; // tabs that need not wait for it

// The instance, and the changes that came while the page was open.
export interface Followed {
  instance: InstanceJson;
  news: ChangeJson[];
  leftOut: number;
}

function useInstance(id: string) {
  return useWatch<Followed>(instanceTopic(id), (message, before) => {
    if (!message.instance) return before;
    const news = [...(before?.news ?? []), ...(message.changes ?? [])].slice(-KEPT);
    return { instance: message.instance, news, leftOut: Number(message.leftOut ?? 0) };
  });
}

// The machine in the version of the instance, and the latest; a flow of its own is in no machine.
function useMachine(instance: InstanceJson | undefined) {
  return useLoad(
    async (signal) => {
      if (!instance?.version) return undefined;
      const asked = machineAsked(instance.machine);
      const get = (version?: number) =>
        call("RunnerService", "GetMachine", { ...asked, version }, signal).catch(() => undefined);
      const latest = await get();
      const own = latest?.version === instance.version ? latest : await get(instance.version);
      return { own, latest: latest?.version };
    },
    [instance?.machine, instance?.version],
  );
}

export function InstancePage() {
  const id = parts.value[3]!;
  useMemo(() => {
    if ((query.value.get("tab") ?? "steps") === "steps") askForLevelAhead(id);
  }, [id]);
  useGraph((query.value.get("tab") ?? "graph") === "graph");
  const { data, gone } = useInstance(id);
  const machine = useMachine(data?.instance);
  if (gone && !data) {
    return (
      <Gone of={id} refusal={gone} command={dcliLine(["instances", term("id", id)], namespace.value)}>
        It may be of another namespace, or its retention is over.{" "}
        <Link to={to("instances")}>All instances</Link>
      </Gone>
    );
  }
  if (!data) return <p class="waiting">Loading …</p>;
  const one = data.instance;
  const own = machine.data?.own;
  const plan = own ? own.kind === "plan" : machine.data !== undefined;
  const tabs: Tab[] = [
    ...(plan
      ? [
          { id: "steps", title: "Steps" },
          { id: "graph", title: "Graph" },
        ]
      : [{ id: "graph", title: "Graph" }]),
    { id: "timeline", title: "Timeline" },
    { id: "history", title: "History" },
    { id: "data", title: "Data" },
    { id: "logs", title: "Logs" },
    { id: "children", title: "Children" },
  ];
  const tab = tabOf(tabs);
  const shown = { followed: data, machine: own, plan };
  return (
    <>
      <Head
        title={
          <>
            <Id of={one.id} />
          </>
        }
        about={one.label ? <Text of={one.label} /> : undefined}
      >
        <Control one={one} />
      </Head>
      {gone && (
        <p class="notice warn" role="status">
          It is not there any more: what is shown is what was seen last.
        </p>
      )}
      <Above one={one} latest={machine.data?.latest} />
      <Standing one={one} machine={own} plan={plan} />
      {machine.data === undefined && !WITHOUT_MACHINE.includes(tab) ? (
        <p class="waiting">Loading …</p>
      ) : (
        <>
          <Tabs tabs={tabs} of={tab} clear={["node", "row", "under"]} />
          <div role="tabpanel" aria-label={tab}>
            {tab === "graph" && <GraphTab {...shown} />}
            {tab === "steps" && <StepsTab {...shown} />}
            {tab === "timeline" && <TimelineTab {...shown} />}
            {tab === "history" && <HistoryTab {...shown} />}
            {tab === "data" && <DataTab {...shown} />}
            {tab === "logs" && <LogsTab {...shown} />}
            {tab === "children" && <ChildrenTab {...shown} />}
          </div>
        </>
      )}
    </>
  );
}

export interface Shown {
  followed: Followed;
  machine: MachineJson | undefined;
  plan: boolean;
}

function Above({ one, latest }: { one: InstanceJson; latest: number | undefined }) {
  const labels = sortedEntries(one.labels);
  return (
    <Panel class="above">
      <Facts
        rows={[
          ["State", <StateOf state={one.state} result={one.result} cancel={one.cancel} />],
          [
            "Machine",
            <>
              <MachineOf one={one} version />
              {latest && one.version && latest > one.version ? (
                <span class="quiet"> · v{latest} is newer</span>
              ) : null}
            </>,
          ],
          [
            "Started",
            one.startTime ? (
              <>
                <Time of={one.startTime} />
                {one.endTime ? ", took " : ", for "}
                <Took from={one.startTime} until={one.endTime} />
                {one.endTime ? "" : " so far"}
              </>
            ) : (
              ""
            ),
          ],
          ["Ended", one.endTime ? <Time of={one.endTime} /> : ""],
          ["Begins", one.startAt && !one.startTime ? <Time of={one.startAt} /> : ""],
          ["Changed", <Time of={one.changeTime} />],
          ["Progress", one.progress ? <Progress share={Number(one.progress)} /> : ""],
          ["Priority", one.priority ? count(one.priority) : ""],
          [
            "Parent",
            one.parent ? (
              <Link to={to("instances", one.parent)}>
                <Id of={one.parent} />
              </Link>
            ) : (
              ""
            ),
          ],
          ["Trace", one.trace ? <Trace of={one.trace} /> : ""],
          [
            "After",
            one.after?.length
              ? one.after.map((after) => (
                  <Link key={after.instance} to={to("instances", after.instance!)}>
                    <Id of={after.instance} />{" "}
                  </Link>
                ))
              : "",
          ],
          ["Before", <Link to={to("instances", { q: term("after", one.id!) })}>those that wait for it</Link>],
          [
            "Group",
            one.group ? (
              <Link to={to("groups", { name: one.group })}>
                <Id of={one.group} />
              </Link>
            ) : (
              ""
            ),
          ],
          ["Started by", one.cause ? <Cause of={one.cause} /> : ""],
          [
            "Package",
            one.package?.name ? (
              <Link to={to("packages", { name: one.package.name })}>
                <Text of={`${one.package.name} ${one.package.version}`} />
              </Link>
            ) : (
              ""
            ),
          ],
          ["Dry run", one.dryRun ? "yes: nothing of it has effects" : ""],
          ["Left behind", one.leftovers ? plural(one.leftovers, "operation") : ""],
          [
            "Labels",
            labels.length ? (
              <span class="chips">
                {labels.map(([key, value]) => (
                  <Link key={key} class="chip" to={to("instances", { q: term(`label.${key}`, value) })}>
                    <Text of={`${key}=${value}`} />
                  </Link>
                ))}
              </span>
            ) : (
              ""
            ),
          ],
        ]}
      />
      {one.error && (
        <p class="notice bad">
          <Lines of={one.error} />
        </p>
      )}
    </Panel>
  );
}

// Where people see traces, if the server was told (dsrv --trace-url).
function traces(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="dfsmr-trace"]')?.content ?? "";
}

function Trace({ of }: { of: string }) {
  const pages = traces();
  if (!pages) return <Id of={of} />;
  return (
    <a href={pages.replaceAll("{trace_id}", encodeURIComponent(of))} rel="noreferrer">
      <Id of={of} />
    </a>
  );
}

function Cause({ of }: { of: string }) {
  const [kind = "", ...name] = of.split(":");
  return (
    <Link to={to(`${kind}s`, { name: name.join(":") })}>
      <Text of={of} />
    </Link>
  );
}

const MOST_TOKENS = 8;

// Where it stands, what each token waits for, and what it can do next.
function Standing({
  one,
  machine,
  plan,
}: {
  one: InstanceJson;
  machine: MachineJson | undefined;
  plan: boolean;
}) {
  const alive = (one.tokens ?? []).filter((token) => token.state !== "DONE");
  const rank = { HELD: 0, CLAIMED: 1, READY: 2, WAITING: 3 } as Record<string, number>;
  const tokens = [...alive].sort((a, b) => (rank[a.state!] ?? 9) - (rank[b.state!] ?? 9));
  const waits = one.waitsFor ?? [];
  if (one.state === "STOPPED" || (tokens.length === 0 && waits.length === 0)) return null;
  return (
    <Panel title="Where it stands" class="standing">
      {waits.map((wait) => (
        <p key={`${wait.kind} ${wait.key}`}>
          <Mark state="waiting" /> Waits for {word(wait.kind)} {wait.key && <Id of={wait.key} />}
          {wait.until && (
            <>
              {" "}
              until <Time of={wait.until} />
            </>
          )}
          {wait.ahead ? <>, {count(wait.ahead)} ahead of it</> : null}
        </p>
      ))}
      <ul class="plain tokens">
        {tokens.slice(0, MOST_TOKENS).map((token) => {
          const node = (machine?.nodes ?? []).find((some) => some.id === token.node);
          const transitions = plan
            ? []
            : (node?.transitions ?? [])
                .map((edge) => edge.transition!)
                .filter((name) => !name.startsWith("dfsmr."));
          const claim = token.claims?.at(-1);
          return (
            <li key={token.node}>
              <span class="token">
                <State of={token.state} /> at{" "}
                <Link to={to("instances", one.id!, { tab: plan ? "steps" : "graph", node: token.node })}>
                  <Id of={token.node} />
                </Link>
                {claim && (
                  <span class="quiet">
                    {" "}
                    by <Text of={claim.worker} most={40} />, attempt {claim.attempt} ·{" "}
                    <Left until={claim.deadline ?? claim.beginBy} />
                    {claim.note && (
                      <>
                        {" "}
                        · <Text of={claim.note} most={60} />
                      </>
                    )}
                  </span>
                )}
                {token.error && (
                  <span class="late">
                    {" "}
                    <Text of={token.error} most={140} />
                  </span>
                )}
                {token.why && (
                  <span class="quiet">
                    {" "}
                    {"· "}
                    <Text of={token.why} most={140} />
                  </span>
                )}
                {token.availableAt && (
                  <span class="quiet">
                    {" "}
                    · <Time of={token.availableAt} />
                  </span>
                )}
              </span>
              <Next one={one} token={token} transitions={transitions} />
            </li>
          );
        })}
      </ul>
      {Number(one.tokenCount ?? tokens.length) > MOST_TOKENS && (
        <p class="quiet">{plural(one.tokenCount ?? tokens.length, "token")} in all.</p>
      )}
    </Panel>
  );
}
