// Records of the feed, in a list: of an instance's history, and of all.
import type { Change_KindJson, ChangeJson } from "../api/types";
import { to } from "../state/route";
import { count, word } from "../text/words";
import { Facts, Panel } from "./bits";
import { Json } from "./json";
import type { Column } from "./list";
import { Id, Lines, Link, None, Text, Time } from "./text";

export const KINDS: Change_KindJson[] = [
  "STARTED",
  "CLAIMED",
  "TRANSITIONED",
  "RELINQUISHED",
  "TIMED_OUT",
  "FINISHED",
  "SCHEDULED",
  "PAUSED",
  "RESUMED",
  "SKIPPED",
  "CANCELLED",
  "SUSPENDED",
  "WOKEN",
  "UPGRADED",
  "ABORTED",
  "REFUSED",
  "ABANDONED",
  "LATE",
  "OCCURRED",
  "START_REFUSED",
  "DEFINED",
  "DELETED",
  "LIMIT_SET",
  "GROUP_FINISHED",
  "BREAKER_OPENED",
  "BREAKER_CLOSED",
  "AGENT_CONNECTED",
  "AGENT_LOST",
  "AGENT_LEFT",
  "PACKAGE_PUSHED",
  "PACKAGE_ACTIVATED",
  "PACKAGE_DEACTIVATED",
  "PACKAGE_REMOVED",
  "RETIRED",
  "NAMESPACE_CHANGED",
  "NAMESPACE_DELETED",
  "IMPORTED",
];

const BAD: Change_KindJson[] = [
  "TIMED_OUT",
  "ABORTED",
  "ABANDONED",
  "REFUSED",
  "START_REFUSED",
  "BREAKER_OPENED",
  "AGENT_LOST",
];

export function toneOf(change: ChangeJson): string | undefined {
  return BAD.includes(change.kind!) || change.errorKind || change.transition === "error" ? "bad" : undefined;
}

function What({ of }: { of: ChangeJson }) {
  if (of.prevNode)
    return (
      <span class="mono">
        <Text of={of.prevNode} />{" "}
        <span class="quiet">–{of.transition ? <Text of={of.transition} /> : ""}→</span>{" "}
        <Text of={of.node || "…"} />
      </span>
    );
  return of.node ? <Id of={of.node} /> : of.cause ? <Text of={of.cause} /> : <None />;
}

const SEQ: Column<ChangeJson> = {
  id: "seq",
  title: "Seq",
  number: true,
  cell: (change) => count(change.seq),
};
const TIME: Column<ChangeJson> = {
  id: "time",
  title: "Time",
  narrow: true,
  cell: (change) => <Time of={change.time} />,
};
const KIND: Column<ChangeJson> = {
  id: "kind",
  title: "Kind",
  narrow: true,
  cell: (change) => word(change.kind),
};
const REST: Column<ChangeJson>[] = [
  { id: "what", title: "What", narrow: true, cell: (change) => <What of={change} /> },
  { id: "attempt", title: "Attempt", number: true, cell: (change) => change.attempt || <None /> },
  { id: "by", title: "By", cell: (change) => <Text of={change.client || "–"} most={40} /> },
  { id: "note", title: "Note", grow: true, cell: (change) => <Text of={change.note} most={160} /> },
];

export const HISTORY_COLUMNS = [KIND, TIME, ...REST];

const INSTANCE: Column<ChangeJson> = {
  id: "instance",
  title: "Instance",
  narrow: true,
  cell: (change) =>
    change.instance ? (
      <Link to={to("instances", change.instance)}>
        <Id of={change.instance} />
      </Link>
    ) : (
      <None />
    ),
};
const MACHINE: Column<ChangeJson> = {
  id: "machine",
  title: "Machine",
  cell: (change) => (change.machine ? <Id of={change.machine} /> : <None />),
};
export const FEED_COLUMNS = [KIND, TIME, SEQ, INSTANCE, MACHINE, ...REST];

// What one record carried.
export function ChangePanel({ change, close }: { change: ChangeJson; close: () => void }) {
  return (
    <Panel
      title={
        <>
          {word(change.kind)} <span class="quiet">#{count(change.seq)}</span>
        </>
      }
      class="node-panel"
      aside={
        <button type="button" class="icon" aria-label="Close" onClick={close}>
          ×
        </button>
      }
    >
      <Facts
        rows={[
          ["Time", <Time of={change.time} />],
          [
            "Instance",
            change.instance && (
              <Link to={to("instances", change.instance)}>
                <Id of={change.instance} />
              </Link>
            ),
          ],
          [
            "Machine",
            change.machine && (
              <Link to={to("machines", change.machine, { version: change.version })}>
                <Id of={change.machine} /> v{change.version}
              </Link>
            ),
          ],
          ["What", <What of={change} />],
          ["Visit", change.visit && count(change.visit)],
          ["Attempt", change.attempt && count(change.attempt)],
          ["By", change.client && <Text of={change.client} />],
          ["Cause", change.cause && <Text of={change.cause} />],
          ["Group", change.group && <Text of={change.group} />],
          ["Began", change.beginTime && <Time of={change.beginTime} />],
          ["Error", change.errorKind && <Text of={change.errorKind} />],
          ["Outcome", change.outcome && <Text of={change.outcome} />],
          [
            "Package",
            change.package?.name && <Text of={`${change.package.name} ${change.package.version}`} />,
          ],
        ]}
      />
      {change.note && (
        <p class="notice">
          <Lines of={change.note} />
        </p>
      )}
      {change.params && change.params !== "{}" && (
        <>
          <h3>It carried</h3>
          <Json of={change.params} />
        </>
      )}
    </Panel>
  );
}
