// /n/NAMESPACE/feed?machine=&instance=&kind=
import { useState } from "preact/hooks";
import type { Change_KindJson, ChangeJson } from "../api/types";
import { Command, Empty, Head, Panel, Refused } from "../parts/bits";
import { ChangePanel, FEED_COLUMNS, KINDS, toneOf } from "../parts/changes";
import { List } from "../parts/list";
import { live } from "../state/live";
import { useWatch } from "../state/load";
import { namespace, query, setQuery } from "../state/route";
import { dcliLine } from "../text/shell";
import { plural, word } from "../text/words";

const KEPT = 2000;
const FIRST = 200;

interface Asked {
  machine: string;
  instance: string;
  kind: string;
}

// What comes from now on, the newest first. Paused, it goes on where it stood.
function useFeed(asked: Asked) {
  const changes = {
    namespace: namespace.value,
    machine: asked.machine,
    instance: asked.instance,
    kinds: asked.kind ? [asked.kind as Change_KindJson] : [],
  };
  return useWatch<ChangeJson[]>({ changes }, (message, before = []) =>
    [...(message.news?.changes ?? []).reverse(), ...before].slice(0, KEPT),
  );
}

export function FeedPage() {
  const asked = {
    machine: query.value.get("machine") ?? "",
    instance: query.value.get("instance") ?? "",
    kind: query.value.get("kind") ?? "",
  };
  const { data: rows = [], gone } = useFeed(asked);
  const [most, setMost] = useState(FIRST);
  const row = query.value.get("row") ?? undefined;
  const opened = rows.find((change) => change.seq === row);
  const field = (name: "machine" | "instance", label: string) => (
    <label class="inline">
      {label}{" "}
      <input
        value={asked[name]}
        placeholder="all"
        onChange={(event) => setQuery({ [name]: event.currentTarget.value, row: undefined })}
      />
    </label>
  );
  return (
    <>
      <Head title="Feed" about="Everything that happens, as it happens; newest first.">
        <button
          type="button"
          aria-pressed={!live.value}
          onClick={() => {
            live.value = !live.value;
          }}
        >
          {live.value ? "Pause" : "Resume where it stood"}
        </button>
      </Head>
      <div class="bar-row">
        {field("machine", "Machine")}
        {field("instance", "Instance")}
        <label class="inline">
          Kind{" "}
          <select
            value={asked.kind}
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
        <span class="spring" />
        <span class="quiet">{plural(rows.length, "record")}</span>
      </div>
      <Refused refusal={gone} />
      <div class={opened ? "with-side" : ""}>
        <Panel class="flush">
          <List
            name="Feed"
            rows={rows.slice(0, most)}
            columns={FEED_COLUMNS}
            rowKey={(change) => `${change.partition ?? 0}.${change.seq}`}
            tone={toneOf}
            opened={opened && `${opened.partition ?? 0}.${opened.seq}`}
            open={(change) => setQuery({ row: change.seq === row ? undefined : change.seq })}
            more={rows.length > most ? () => setMost(most + FIRST) : undefined}
            empty={
              <Empty
                title={
                  gone
                    ? "It tells nothing."
                    : live.value
                      ? "Waiting for something to happen."
                      : "It is paused."
                }
              >
                {live.value && !gone && "Start an instance, or report on one: it shows here within a second."}
              </Empty>
            }
          />
        </Panel>
        {opened && <ChangePanel change={opened} close={() => setQuery({ row: undefined })} />}
      </div>
      <p class="quiet after-list">The same from a shell, from the oldest record on:</p>
      <Command
        of={dcliLine(
          [
            "changes",
            "--after",
            "0",
            ...(asked.machine ? ["--machine", asked.machine] : []),
            ...(asked.instance ? ["--instance", asked.instance] : []),
            ...(asked.kind ? ["--kind", asked.kind.toLowerCase()] : []),
          ],
          namespace.value,
        )}
      />
    </>
  );
}
