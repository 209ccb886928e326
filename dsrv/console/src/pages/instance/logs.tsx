// What the operations of an instance write, followed while it is live.
import { useEffect, useRef } from "preact/hooks";
import { stream } from "../../api/stream";
import type { LogEntryJson, LogLine_StreamJson } from "../../api/types";
import { Copy, Empty, Refused } from "../../parts/bits";
import { Id } from "../../parts/text";
import { useLoad } from "../../state/load";
import { namespace, query, setQuery } from "../../state/route";
import { cleanLines } from "../../text/clean";
import { argument, dcliLine } from "../../text/shell";
import { count, plural } from "../../text/words";
import type { Shown } from "./index";

const KEPT = 5000;
const TAIL = 2000;
const AGAIN = 1000;

// Asked for, not streamed: a browser opens six connections to a server, and each page has one stream.
function useLogs(instance: string, node: string, attempt: number) {
  const cursor = useRef("");
  const entries = useRef<LogEntryJson[]>([]);
  const key = JSON.stringify([instance, node, attempt]);
  const last = useRef(key);
  const loaded = useLoad(
    async (signal) => {
      if (last.current !== key) {
        last.current = key;
        cursor.current = "";
        entries.current = [];
      }
      const from = cursor.current ? { after: cursor.current } : { tail: TAIL };
      for await (const some of stream(
        "AgentService",
        "ReadLogs",
        {
          namespace: namespace.value,
          instance,
          node: node || undefined,
          attempt: attempt || undefined,
          ...from,
          follow: false,
        },
        signal,
      )) {
        if (some.cursor) cursor.current = some.cursor;
        entries.current = [...entries.current, ...(some.entries ?? [])].slice(-KEPT);
      }
      return entries.current;
    },
    [key],
    AGAIN,
  );
  return { entries: loaded.data, refusal: loaded.refusal };
}

const SIGN: Record<LogLine_StreamJson, string> = {
  STREAM_UNSPECIFIED: "",
  OUT: "",
  ERR: "err",
  AGENT: "agent",
};

export function LogsTab({ followed }: Shown) {
  const one = followed.instance;
  const node = query.value.get("node") ?? "";
  const attempt = Number(query.value.get("attempt") ?? 0);
  const { entries, refusal } = useLogs(one.id!, node, attempt);
  const end = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  useEffect(() => {
    if (stick.current) end.current?.scrollTo(0, end.current.scrollHeight);
  }, [entries?.length]);
  const text = (entries ?? []).map((entry) => entry.text ?? "").join("\n");
  return (
    <>
      <div class="bar-row">
        <label class="inline">
          Node{" "}
          <input
            value={node}
            placeholder="all"
            onChange={(event) => setQuery({ node: event.currentTarget.value })}
          />
        </label>
        <label class="inline">
          Attempt{" "}
          <input
            value={attempt || ""}
            inputMode="numeric"
            size={4}
            placeholder="all"
            onChange={(event) => setQuery({ attempt: event.currentTarget.value })}
          />
        </label>
        <span class="spring" />
        {entries && entries.length > 0 && (
          <>
            <span class="quiet">
              {plural(entries.length, "line")}
              {entries.length === KEPT ? ", the last" : ""}
            </span>
            <Copy text={text} label="Copy all" />
          </>
        )}
      </div>
      <Refused refusal={refusal} />
      {entries?.length === 0 && !refusal && (
        <Empty title="No lines." command={dcliLine(["logs", argument(one.id), "--follow"], namespace.value)}>
          What agents run for it writes here; workers of your own keep their logs themselves.
        </Empty>
      )}
      {entries && entries.length > 0 && (
        <div
          class="logs"
          ref={end}
          tabIndex={0}
          role="log"
          aria-label="Logs"
          onScroll={(event) => {
            const box = event.currentTarget;
            stick.current = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
          }}
        >
          {entries.map((entry) => (
            <div
              key={`${entry.claim}${entry.node}${entry.visit}.${entry.attempt}.${entry.line}`}
              class={`s-${SIGN[entry.stream ?? "OUT"]}`}
            >
              <span class="where" title={`${entry.time}, attempt ${entry.attempt}, ${entry.worker}`}>
                <Id of={entry.node} />
              </span>
              <span class="sign">{SIGN[entry.stream ?? "OUT"]}</span>
              <bdi>
                {Number(entry.leftOut ?? 0) > 0 && <i>{count(entry.leftOut)} lines are not kept. </i>}
                {cleanLines(entry.text ?? "")}
              </bdi>
            </div>
          ))}
        </div>
      )}
    </>
  );
}
