// /n/NAMESPACE/bulks
import { call } from "../api/call";
import type { BulkJson } from "../api/types";
import { Do, sent } from "../parts/act";
import { Empty, Facts, Refused } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { Bar, Id, Link, State, Text, Time, Took } from "../parts/text";
import { useWatch } from "../state/load";
import { usePages } from "../state/pages";
import { namespace, to } from "../state/route";
import { argument } from "../text/shell";
import { capital, count, plural, word } from "../text/words";

function whomOf(bulk: BulkJson): string {
  const request = bulk.request ?? {};
  return request.instances?.length
    ? plural(request.instances.length, "instance")
    : request.filter || "all instances";
}

function actionOf(bulk: BulkJson): string {
  const request = bulk.request ?? {};
  const mode =
    request.mode && request.mode !== "MODE_UNSPECIFIED" && request.mode !== "CANCEL"
      ? `, ${word(request.mode)}`
      : "";
  return (
    capital(word(request.action)) +
    mode +
    (request.transition ? ` ${request.transition}` : "") +
    (request.node ? ` at ${request.node}` : "")
  );
}

const COLUMNS: Column<BulkJson>[] = [
  { id: "bulk", title: "Bulk", narrow: true, cell: (bulk) => <Id of={bulk.request?.id} /> },
  { id: "state", title: "State", narrow: true, cell: (bulk) => <State of={bulk.state} /> },
  { id: "action", title: "Does", cell: (bulk) => <Text of={actionOf(bulk)} most={60} /> },
  {
    id: "whom",
    title: "To",
    cell: (bulk) => (
      <span class="mono">
        <Text of={whomOf(bulk)} most={60} />
      </span>
    ),
  },
  { id: "changed", title: "Changed", number: true, narrow: true, cell: (bulk) => count(bulk.changed) },
  { id: "unchanged", lesser: 2, title: "So already", number: true, cell: (bulk) => count(bulk.unchanged) },
  { id: "refused", title: "Refused", number: true, cell: (bulk) => count(bulk.refused) },
  { id: "began", title: "Began", cell: (bulk) => <Time of={bulk.startTime} /> },
  {
    id: "took",
    lesser: 2,
    title: "Took",
    number: true,
    cell: (bulk) => <Took from={bulk.startTime} until={bulk.endTime} />,
  },
  {
    id: "reason",
    title: "Reason",
    grow: true,
    cell: (bulk) => <Text of={bulk.request?.reason} most={100} />,
  },
];

export function BulksPage() {
  const list = usePages<BulkJson>(
    async (pageToken, signal) => {
      const reply = await call("BulkService", "ListBulks", { namespace: namespace.value, pageToken }, signal);
      return { rows: reply.bulks ?? [], next: reply.nextPageToken };
    },
    [namespace.value],
  );
  return (
    <ListPage
      title="Bulk changes"
      list={list}
      columns={COLUMNS}
      rowKey={(bulk) => bulk.request?.id ?? ""}
      param="id"
      about="One change of many instances, done in the server; kept as long as instances."
      detail={(_, id) => <OneBulk id={id} />}
      empty={
        <Empty title="There has been none." command="dcli resume --filter 'is:held' --dry-run">
          Select <Link to={to("instances")}>instances</Link>, or all that match a filter. From a shell:
        </Empty>
      }
    />
  );
}

function OneBulk({ id }: { id: string }) {
  const { data: bulk, gone } = useWatch<BulkJson>(
    { bulk: { namespace: namespace.value, id } },
    (message) => message.bulk,
  );
  if (gone && !bulk) return <Refused refusal={gone} />;
  if (!bulk) return <p class="waiting">Loading …</p>;
  const running = bulk.state === "RUNNING";
  const whole = Number(bulk.matched ?? 0);
  const sample = bulk.sample ?? [];
  return (
    <>
      <p class="actions">
        <State of={bulk.state} />
        {running && (
          <Do
            class="small"
            label="Stop"
            role="OPERATOR"
            action={() => ({
              title: `Stop ${id}`,
              verb: "Stop",
              danger: true,
              about: "What was done stays done.",
              send: () => sent("BulkService", "StopBulk", { namespace: namespace.value, id }),
              dcli: () => ["bulk", "stop", argument(id)],
            })}
          />
        )}
      </p>
      {running && whole > 0 && (
        <Bar
          share={
            (Number(bulk.changed ?? 0) + Number(bulk.unchanged ?? 0) + Number(bulk.refused ?? 0)) / whole
          }
        />
      )}
      <Facts
        rows={[
          ["Does", <Text of={actionOf(bulk)} />],
          [
            "To",
            bulk.request?.filter !== undefined ? (
              <Link to={to("instances", { q: bulk.request.filter })}>
                <Id of={whomOf(bulk)} />
              </Link>
            ) : (
              whomOf(bulk)
            ),
          ],
          ["Looked at", count(bulk.lookedAt)],
          ["Matched", count(bulk.matched)],
          ["Changed", count(bulk.changed)],
          ["So already", count(bulk.unchanged)],
          ["Refused", count(bulk.refused)],
          ["At most", Number(bulk.request?.atMost ?? 0) > 0 && count(bulk.request!.atMost)],
          ["Reason", bulk.request?.reason && <Text of={bulk.request.reason} />],
          ["By", bulk.createdBy && <Text of={bulk.createdBy} />],
          ["Began", <Time of={bulk.startTime} />],
          ["Ended", bulk.endTime && <Time of={bulk.endTime} />],
        ]}
      />
      {Object.keys(bulk.reasons ?? {}).length > 0 && (
        <>
          <h3>Refused, by reason</h3>
          <Facts rows={Object.entries(bulk.reasons!).map(([why, number]) => [why, count(number)])} />
        </>
      )}
      {sample.length > 0 && (
        <>
          <h3>{Number(bulk.refused ?? 0) > 0 ? "Of the refused" : "The first"}</h3>
          <ul class="plain">
            {sample.map((one) => (
              <li key={one}>
                <Link to={to("instances", one)}>
                  <Id of={one} />
                </Link>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
