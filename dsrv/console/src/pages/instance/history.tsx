// All records of an instance, newest or oldest first.
import { useEffect } from "preact/hooks";
import { call } from "../../api/call";
import type { Change_KindJson, ChangeJson } from "../../api/types";
import { Empty, Panel, Waiting } from "../../parts/bits";
import { ChangePanel, HISTORY_COLUMNS, KINDS, toneOf } from "../../parts/changes";
import { List } from "../../parts/list";
import { usePages } from "../../state/pages";
import { query, setQuery } from "../../state/route";
import { word } from "../../text/words";
import { historyAsked } from "../asks";
import type { Shown } from "./index";
import { useVisits } from "./visits";

export function HistoryTab({ followed }: Shown) {
  const id = followed.instance.id!;
  const oldest = query.value.get("from") === "oldest";
  const kind = (query.value.get("kind") ?? "") as Change_KindJson | "";
  const node = query.value.get("node") ?? "";
  const row = query.value.get("row") ?? undefined;
  const list = usePages<ChangeJson>(
    async (pageToken, signal) => {
      const page = await call("RunnerService", "GetHistory", historyAsked(id, pageToken), signal);
      return { rows: page.changes ?? [], next: page.nextPageToken };
    },
    [id, oldest, kind, node, followed.instance.changeTime],
    { again: 0 },
  );
  const rows = list.rows ?? [];
  useFurther(list.next ? list.more : undefined, rows.length);
  const opened = rows.find((change) => change.seq === row);
  useVisits(
    oldest ? rows : [...rows].reverse(),
    (change) => change.seq === row,
    (change) => setQuery({ row: change.seq }),
  );
  return (
    <div class={opened ? "with-side" : ""}>
      <div>
        <div class="bar-row">
          <label class="inline">
            From the{" "}
            <select
              value={oldest ? "oldest" : ""}
              onChange={(event) => setQuery({ from: event.currentTarget.value, row: undefined })}
            >
              <option value="">newest</option>
              <option value="oldest">oldest</option>
            </select>
          </label>
          <label class="inline">
            Kind{" "}
            <select
              value={kind}
              onChange={(event) => setQuery({ kind: event.currentTarget.value, row: undefined })}
            >
              <option value="">all</option>
              {KINDS.map((one) => (
                <option key={one} value={one}>
                  {word(one)}
                </option>
              ))}
            </select>
          </label>
          <label class="inline">
            Node{" "}
            <input
              value={node}
              placeholder="all"
              onChange={(event) => setQuery({ node: event.currentTarget.value, row: undefined })}
            />
          </label>
        </div>
        <Waiting on={list} />
        {list.rows && (
          <Panel class="flush">
            <List
              name="History"
              rows={rows}
              columns={HISTORY_COLUMNS}
              rowKey={(change) => change.seq!}
              opened={row}
              open={(change) => setQuery({ row: change.seq === row ? undefined : change.seq })}
              tone={toneOf}
              more={list.next ? list.more : undefined}
              empty={
                <Empty
                  title={kind || node ? "No record is of this kind and node." : "Nothing has happened yet."}
                />
              }
            />
          </Panel>
        )}
      </div>
      {opened && <ChangePanel change={opened} close={() => setQuery({ row: undefined })} />}
    </div>
  );
}

// The next page comes when the end of the list is near.
function useFurther(more: (() => void) | undefined, length: number): void {
  useEffect(() => {
    if (!more) return undefined;
    let asked = false;
    const near = () => {
      const left = document.documentElement.scrollHeight - scrollY - innerHeight;
      if (asked || left > 800 || scrollY === 0) return;
      asked = true;
      more();
    };
    addEventListener("scroll", near, { passive: true });
    near(); // scrolled to the end before this listened: no event follows
    return () => removeEventListener("scroll", near);
  }, [length, !more]);
}
