// /namespaces
import { call } from "../api/call";
import type { NamespaceJson, QuotasJson } from "../api/types";
import { Do, sent, type Action } from "../parts/act";
import { Empty } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { Bar, Id, None, State, Text, Time } from "../parts/text";
import { usePages } from "../state/pages";
import { toIn } from "../state/route";
import { argument } from "../text/shell";
import { bytes, count, duration } from "../text/words";

function Used({
  of,
  limit,
  show = count,
}: {
  of: string | number | undefined;
  limit: string | number | undefined;
  show?: (value: string | number | undefined) => string;
}) {
  const most = Number(limit ?? 0);
  return (
    <span title={most > 0 ? `at most ${show(most)}` : "no limit"}>
      {show(of)}
      {most > 0 && (
        <>
          {" "}
          <span class="quiet">of {show(most)}</span>
          <Bar share={Number(of ?? 0) / most} state={Number(of ?? 0) >= 0.8 * most ? "warning" : undefined} />
        </>
      )}
    </span>
  );
}

const used = (
  id: string,
  title: string,
  of: (one: NamespaceJson) => string | number | undefined,
  quota: keyof QuotasJson,
  show?: typeof bytes,
  narrow = false,
): Column<NamespaceJson> => ({
  id,
  title,
  number: true,
  narrow,
  cell: (one) => <Used of={of(one)} limit={one.effective?.[quota]} show={show} />,
});

const COLUMNS: Column<NamespaceJson>[] = [
  { id: "namespace", title: "Namespace", narrow: true, cell: (one) => <Id of={one.name} /> },
  { id: "state", title: "State", narrow: true, cell: (one) => <State of={one.state} /> },
  used("live", "Live instances", (one) => one.usage?.liveInstances, "liveInstances", undefined, true),
  used("ready", "Ready tasks", (one) => one.usage?.readyTasks, "readyTasks"),
  { id: "claimed", title: "Claimed", number: true, cell: (one) => count(one.usage?.claimedTasks) },
  used("definitions", "Definitions", (one) => one.usage?.definitions, "definitions"),
  used("packages", "Packages", (one) => one.usage?.packageBytes, "packageBytes", bytes),
  {
    id: "starts",
    lesser: 3,
    title: "Starts a second",
    number: true,
    cell: (one) => Number(one.usage?.startsPerSecond ?? 0).toFixed(1),
  },
  {
    id: "stopped",
    lesser: 2,
    title: "Stopped, kept",
    number: true,
    cell: (one) => count(one.usage?.stoppedInstances),
  },
  {
    id: "retention",
    lesser: 2,
    title: "Kept for",
    cell: (one) => (one.effective?.retention ? duration(one.effective.retention) : <None />),
  },
  { id: "made", lesser: 3, title: "Made", cell: (one) => <Time of={one.createTime} /> },
  {
    id: "do",
    keep: true,
    title: "",
    narrow: true,
    cell: (one) => (
      <Do
        class="small"
        label={one.state === "FROZEN" ? "Thaw" : "Freeze"}
        role="OPERATOR"
        why={one.state === "ACTIVE" || one.state === "FROZEN" ? undefined : "It is on its way out."}
        action={() => freeze(one)}
      />
    ),
  },
  {
    id: "about",
    lesser: 3,
    title: "About",
    grow: true,
    cell: (one) => <Text of={one.settings?.description} most={100} />,
  },
];

function freeze(one: NamespaceJson): Action {
  const thaw = one.state === "FROZEN";
  return {
    title: `${thaw ? "Thaw" : "Freeze"} ${one.name}`,
    verb: thaw ? "Thaw" : "Freeze",
    danger: !thaw,
    about: thaw
      ? "Work is handed out again."
      : "For maintenance: nothing is handed out or started from outside; what is claimed may report.",
    send: () => sent("NamespaceService", "FreezeNamespace", { name: one.name, thaw: thaw || undefined }),
    dcli: () => ["namespace", thaw ? "thaw" : "freeze", argument(one.name)],
  };
}

export function NamespacesPage() {
  const list = usePages<NamespaceJson>(async (pageToken, signal) => {
    const reply = await call("NamespaceService", "ListNamespaces", { pageToken }, signal);
    return { rows: reply.namespaces ?? [], next: reply.nextPageToken };
  }, []);
  return (
    <ListPage
      title="Namespaces"
      about="What each uses, and what it may use."
      list={list}
      columns={COLUMNS}
      rowKey={(one) => one.name!}
      link={(one) => toIn(one.name!)}
      empty={
        <Empty title="No namespace is in use yet." command="dcli namespace create team-a">
          The first use of one makes it; default is always there.
        </Empty>
      }
    />
  );
}
