// The graph of a plan that has more steps than are drawn: a level at a time, and nothing is asked for but
// what was opened. So 100,000 steps show as fast as 50.
import { useMemo, useRef } from "preact/hooks";
import { call } from "../../api/call";
import { MOST } from "../../graph/groups";
import { graphOfLevels, type Box, type Level } from "../../graph/model";
import { Waiting } from "../../parts/bits";
import { GraphView } from "../../parts/graph";
import { useLoad } from "../../state/load";
import { namespace, query, setQuery } from "../../state/route";
import { count } from "../../text/words";
import type { Shown } from "./index";
import { NodePanel } from "./node";
import { seenOfRow } from "./steps";

const DRAWN = 200; // of a level
const AGAIN = 5000;

interface Part extends Level {
  whole: boolean;
}

async function partOf(instance: string, under: string, signal: AbortSignal): Promise<Part> {
  const reply = await call(
    "ViewService",
    "ListSteps",
    { namespace: namespace.value, instance, under, pageSize: DRAWN },
    signal,
  );
  return { under, rows: reply.rows ?? [], whole: !reply.nextPageToken };
}

// Whether an instance of a plan has more steps than are drawn one by one; undefined: not known yet.
export function useLarge(instance: string, plan: boolean) {
  const top = useLoad(
    (signal) => (plan ? partOf(instance, "", signal) : Promise.resolve(undefined)),
    [instance, plan],
  );
  const steps = (top.data?.rows ?? []).reduce((sum, row) => sum + Number(row.steps ?? 0), 0);
  const known = !plan || top.data !== undefined;
  return { ...top, large: known ? steps > MOST || top.data?.whole === false : undefined };
}

// `top` is the first level as it was found by useLarge.
export function LevelsGraph({ top, ...shown }: Shown & { top: Part | undefined }) {
  const id = shown.followed.instance.id!;
  const chosen = query.value.get("node") ?? undefined;
  const open = (query.value.get("open") ?? "").split(",").filter((path) => path !== "");
  const first = useRef(top);
  const loaded = useLoad(
    async (signal) => {
      const parts = [first.current ?? (await partOf(id, "", signal))];
      first.current = undefined;
      for (const under of open) parts.push(await partOf(id, under, signal));
      return parts;
    },
    [id, open.join()],
    AGAIN,
  );
  const parts = loaded.data;
  const shape = JSON.stringify(
    parts?.map(({ under, rows }) => [under, rows.map((row) => [row.path, row.after, row.steps])]),
  );
  const graph = useMemo(() => graphOfLevels(parts ?? [], MOST), [shape]);
  if (!parts) return <Waiting on={loaded} />;
  const rows = new Map(parts.flatMap((part) => part.rows.map((row) => [row.path!, row])));
  const choose = (box: Box) => {
    if (box.kind !== "group") setQuery({ node: box.id === chosen ? undefined : box.id });
    else if (open.includes(box.id)) setQuery({ open: open.filter((path) => path !== box.id).join() }, true);
    else setQuery({ open: [...open, box.id].join() }, true);
  };
  return (
    <div class={chosen ? "with-side" : ""}>
      <div class="stack">
        <GraphView
          graph={graph}
          name={`Where ${id} stands`}
          chosen={chosen}
          choose={choose}
          seen={(box) => seenOfRow(rows.get(box.id) ?? {})}
        />
        <p class="quiet">
          More than {count(MOST)} steps are drawn by groups: open one to see into it.
          {parts.some((part) => !part.whole) &&
            ` Of a group the first ${count(DRAWN)} are drawn; the tab Steps lists all.`}
        </p>
      </div>
      {chosen && <NodePanel {...shown} node={chosen} />}
    </div>
  );
}
