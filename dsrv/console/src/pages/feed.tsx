// /n/NAMESPACE/feed?machine=&instance=&kind=
import { useEffect, useRef, useState } from "preact/hooks";
import { toRefusal, type Refusal } from "../api/refusal";
import { stream } from "../api/stream";
import type { Change_KindJson, ChangeJson } from "../api/types";
import { Command, Empty, Head, Panel, Refused } from "../parts/bits";
import { ChangePanel, FEED_COLUMNS, KINDS, toneOf } from "../parts/changes";
import { List } from "../parts/list";
import { hidden, live, lost } from "../state/live";
import { namespace, query, setQuery } from "../state/route";
import { signIns } from "../state/session";
import { dcliLine } from "../text/shell";
import { plural, word } from "../text/words";

const KEPT = 2000;
const FIRST = 200;
const SHOW_EVERY = 250;

interface Asked { machine: string; instance: string; kind: string }

// The newest records that are kept, then what comes. Paused, it resumes where it stood.
function useFeed(asked: Asked) {
  const [rows, setRows] = useState<ChangeJson[]>([]);
  const [refusal, setRefusal] = useState<Refusal | undefined>();
  const cursor = useRef("");
  const key = JSON.stringify([namespace.value, asked]);
  useEffect(() => {
    cursor.current = "";
    setRows([]);
  }, [key]);
  const on = live.value && !hidden.value;
  useEffect(() => {
    if (!on) return undefined;
    const stop = new AbortController();
    void follow(asked, cursor, setRows, setRefusal, stop.signal);
    return () => stop.abort();
  }, [key, on, signIns.value]);
  return { rows, refusal };
}

async function follow(asked: Asked, cursor: { current: string }, setRows: (change: (before: ChangeJson[]) => ChangeJson[]) => void,
  setRefusal: (refusal: Refusal | undefined) => void, signal: AbortSignal): Promise<void> {
  let waiting: ChangeJson[] = [];
  const show = setInterval(() => {
    if (waiting.length === 0) return;
    const some = waiting.reverse();
    waiting = [];
    setRows((before) => [...some, ...before].slice(0, KEPT));
  }, SHOW_EVERY);
  signal.addEventListener("abort", () => clearInterval(show));
  const request = { namespace: namespace.value, machine: asked.machine || undefined, instance: asked.instance || undefined,
    kinds: asked.kind ? [asked.kind as Change_KindJson] : [] };
  for (let delay = 500; !signal.aborted; delay = Math.min(delay * 2, 10_000)) {
    try {
      for await (const some of stream("RunnerService", "Changes", { ...request, after: cursor.current || undefined, follow: true }, signal)) {
        waiting.push(...(some.changes ?? []));
        if (waiting.length > KEPT) waiting = waiting.slice(-KEPT);
        if (some.cursor) cursor.current = some.cursor;
        if (lost.peek()) lost.value = undefined;
        setRefusal(undefined);
        delay = 500;
      }
    } catch (error) {
      if (signal.aborted) return;
      const refused = toRefusal(error);
      if (refused.reason === "CURSOR_EXPIRED") cursor.current = "";
      else if (!refused.away) return setRefusal(refused);
      else lost.value ??= { since: Date.now(), why: refused.message };
    }
    await new Promise((resolve) => setTimeout(resolve, delay));
  }
}

export function FeedPage() {
  const asked = { machine: query.value.get("machine") ?? "", instance: query.value.get("instance") ?? "", kind: query.value.get("kind") ?? "" };
  const { rows, refusal } = useFeed(asked);
  const [most, setMost] = useState(FIRST);
  const row = query.value.get("row") ?? undefined;
  const opened = rows.find((change) => change.seq === row);
  const field = (name: "machine" | "instance", label: string) => <label class="inline">{label} <input value={asked[name]} placeholder="all"
    onChange={(event) => setQuery({ [name]: event.currentTarget.value, row: undefined })} /></label>;
  return <>
    <Head title="Feed" about="Everything that happens, as it happens; newest first.">
      <button type="button" aria-pressed={!live.value} onClick={() => { live.value = !live.value; }}>{live.value ? "Pause" : "Resume where it stood"}</button>
    </Head>
    <div class="bar-row">{field("machine", "Machine")}{field("instance", "Instance")}
      <label class="inline">Kind <select value={asked.kind} onChange={(event) => setQuery({ kind: event.currentTarget.value, row: undefined })}>
        <option value="">all</option>{KINDS.map((one) => <option key={one} value={one}>{word(one)}</option>)}</select></label>
      <span class="spring" /><span class="quiet">{plural(rows.length, "record")}</span></div>
    <Refused refusal={refusal} />
    <div class={opened ? "with-side" : ""}>
      <Panel class="flush"><List name="Feed" rows={rows.slice(0, most)} columns={FEED_COLUMNS} rowKey={(change) => `${change.partition ?? 0}.${change.seq}`} tone={toneOf}
        opened={opened && `${opened.partition ?? 0}.${opened.seq}`} open={(change) => setQuery({ row: change.seq === row ? undefined : change.seq })}
        more={rows.length > most ? () => setMost(most + FIRST) : undefined}
        empty={<Empty title={live.value ? "Waiting for something to happen." : "It is paused."}>{live.value && "Start an instance, or report on one: it shows here within a second."}</Empty>} /></Panel>
      {opened && <ChangePanel change={opened} close={() => setQuery({ row: undefined })} />}
    </div>
    <p class="quiet after-list">The same from a shell, from the oldest record on:</p>
    <Command of={dcliLine(["changes", "--after", "0", ...(asked.machine ? ["--machine", asked.machine] : []), ...(asked.instance ? ["--instance", asked.instance] : []),
      ...(asked.kind ? ["--kind", asked.kind.toLowerCase()] : [])], namespace.value)} />
  </>;
}
