// /n/NAMESPACE/define?machine=
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/call";
import { toRefusal, type Refusal } from "../api/refusal";
import type { DefinedJson, DefineResponseJson } from "../api/types";
import { grouped } from "../graph/groups";
import { graphOfNodes } from "../graph/model";
import { act, AsCommand, Do, sent, tell } from "../parts/act";
import { Empty, Head, Panel, Refused } from "../parts/bits";
import { YamlEditor } from "../parts/editor";
import { GraphView } from "../parts/graph";
import { List, type Column } from "../parts/list";
import { Id, Link, Mark, Text } from "../parts/text";
import { useLoad } from "../state/load";
import { namespace, query, to } from "../state/route";
import { count, plural } from "../text/words";

const FIRST = `id: hello
description: The smallest machine that does something.
nodes:
  greet:
    start: true
    transitions: {ok: done}
  done:
    final: true
`;
const AFTER_TYPING = 400;

export function DefinePage() {
  const machine = query.value.get("machine") ?? "";
  const loaded = useLoad(
    async (signal) => {
      const asked = { namespace: namespace.value, id: machine };
      const found = machine ? await call("RunnerService", "GetMachine", asked, signal) : { source: FIRST };
      return { of: machine, source: found.source ?? "" };
    },
    [namespace.value, machine],
  );
  return (
    <>
      <Head
        title={
          machine ? (
            <>
              Define <Id of={machine} />
            </>
          ) : (
            "Define"
          )
        }
        about="Machines, plans, actions, schedules, triggers and limits, as YAML."
      />
      <Refused refusal={loaded.refusal} />
      {loaded.data?.of === machine && <Editing key={machine} machine={machine} first={loaded.data.source} />}
    </>
  );
}

function usePreview(source: string): {
  preview: DefineResponseJson | undefined;
  refusal: Refusal | undefined;
} {
  const [state, setState] = useState<{ preview?: DefineResponseJson; refusal?: Refusal }>({});
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      call(
        "RunnerService",
        "Define",
        { namespace: namespace.value, source, sourceName: "console.yaml", validateOnly: true, preview: true },
        stop.signal,
      ).then(
        (preview) => setState({ preview }),
        (error) => {
          if (!stop.signal.aborted) setState((before) => ({ ...before, refusal: toRefusal(error) }));
        },
      );
    }, AFTER_TYPING);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [source]);
  return { preview: state.preview, refusal: state.refusal };
}

// What was typed and not defined yet, by namespace and machine: it is there again when one comes back, and the
// browser asks before it is closed over it.
const drafts = new Map<string, string>();
addEventListener("beforeunload", (event) => {
  if (drafts.size > 0) event.preventDefault();
});

function useDraft(machine: string, first: string) {
  const key = JSON.stringify([namespace.value, machine]);
  const [kept, setKept] = useState(first);
  const [source, setSource] = useState(drafts.get(key) ?? first);
  const type = (text: string) => {
    if (text === kept) drafts.delete(key);
    else drafts.set(key, text);
    setSource(text);
  };
  const defined = () => {
    drafts.delete(key);
    setKept(source);
  };
  return { source, kept, type, defined };
}

function Editing({ machine, first }: { machine: string; first: string }) {
  const { source, kept, type, defined } = useDraft(machine, first);
  const [round, setRound] = useState(0);
  const discard = () => {
    type(kept);
    setRound(round + 1); // the editor begins anew
  };
  const [goTo, setGoTo] = useState<{ line: number } | undefined>();
  const { preview, refusal } = usePreview(source);
  const problems = (preview?.diagnostics ?? []).map((one) => ({
    line: one.line ?? 1,
    column: one.column ?? 1,
    message: one.message ?? "",
    warning: one.severity === "WARNING",
  }));
  const wrong = problems.filter((problem) => !problem.warning).length;
  const changed = (preview?.defined ?? []).filter((one) => one.changed);
  const request = { namespace: namespace.value, source, sourceName: "console.yaml" };
  return (
    <div class="define">
      <YamlEditor key={round} text={source} change={type} problems={problems} goTo={goTo} />
      <div class="stack">
        <Refused refusal={refusal} />
        {source !== kept && (
          <p class="draft">
            <span class="quiet">
              Typed, and not defined: it stays while this page of the browser is open.
            </span>
            <button type="button" class="small" onClick={discard}>
              Discard it
            </button>
          </p>
        )}
        <Panel
          title="What Define would do"
          aside={
            <Do
              label="Define"
              role="OPERATOR"
              class="primary"
              why={
                !preview
                  ? "It is being checked."
                  : wrong > 0
                    ? plural(wrong, "error")
                    : changed.length === 0
                      ? "Nothing would change."
                      : undefined
              }
              action={() => defineOf(source, changed, defined)}
            />
          }
        >
          {problems.length > 0 && (
            <ul class="plain problems">
              {problems.map((problem, i) => (
                <li key={i} class={problem.warning ? "is-warning" : "is-error"}>
                  <Mark state={problem.warning ? "warning" : "error"} />{" "}
                  <button type="button" class="link" onClick={() => setGoTo({ line: problem.line })}>
                    {problem.line}:{problem.column}
                  </button>{" "}
                  <Text of={problem.message} />
                </li>
              ))}
            </ul>
          )}
          {(preview?.defined ?? []).length > 0 ? (
            <List
              name="Documents"
              rows={preview!.defined!}
              columns={DEFINED}
              rowKey={(one) => `${one.kind} ${one.id}`}
            />
          ) : (
            problems.length === 0 && <p class="quiet">Nothing yet.</p>
          )}
          <AsCommand
            send={() => sent("RunnerService", "Define", request)}
            dcli={() => ["define", "FILE"]}
            values={{}}
          />
        </Panel>
        {(preview?.machines ?? [])
          .filter((one) => (one.nodes ?? []).length > 0)
          .slice(0, 5)
          .map((one) => (
            <div key={one.id}>
              <h3>
                <Id of={one.id} />
              </h3>
              <GraphView
                graph={grouped(graphOfNodes(one.nodes!), new Set())}
                name={`The graph of ${one.id}`}
              />
            </div>
          ))}
        {preview && (preview.machines ?? []).length === 0 && (
          <Panel>
            <Empty title="No graph yet.">What is sound is drawn here.</Empty>
          </Panel>
        )}
      </div>
    </div>
  );
}

const DEFINED: Column<DefinedJson>[] = [
  {
    id: "id",
    title: "Document",
    narrow: true,
    cell: (one) => (
      <>
        <span class="quiet">{one.kind}</span> <Id of={one.id} />
      </>
    ),
  },
  {
    id: "version",
    title: "Version",
    narrow: true,
    cell: (one) => (one.changed ? `v${one.version}` : `v${one.version}, unchanged`),
  },
  {
    id: "running",
    title: "Running instances",
    narrow: true,
    cell: (one) =>
      Number(one.affectedInstances ?? 0) > 0
        ? `${count(one.affectedInstances)}: ${one.upgradeStrategy}`
        : one.changed
          ? "none is touched"
          : "",
  },
];

// Asks where running instances are upgraded or aborted.
function defineOf(source: string, changed: DefinedJson[], after: () => void): void {
  const touched = changed.filter(
    (one) => Number(one.affectedInstances ?? 0) > 0 && one.upgradeStrategy !== "continue",
  );
  act({
    title: `Define ${changed.map((one) => one.id).join(", ")}`,
    verb: "Define",
    danger: touched.length > 0,
    about:
      touched.length === 0 ? (
        `${plural(changed.length, "document")} get the next version; running instances go on as they are.`
      ) : (
        <>
          {touched.map((one) => (
            <p key={one.id}>
              <b>{count(one.affectedInstances)}</b> running instances of {one.id} are{" "}
              {one.upgradeStrategy === "abort" ? "aborted" : "upgraded: they begin anew"}.
            </p>
          ))}
        </>
      ),
    send: () =>
      sent("RunnerService", "Define", { namespace: namespace.value, source, sourceName: "console.yaml" }),
    dcli: () => ["define", "FILE"],
    done: (reply: DefineResponseJson) => {
      after();
      const first = reply.defined?.find((one) => one.changed) ?? reply.defined?.[0];
      tell(
        <>
          Defined.{" "}
          {first && ["machine", "plan", "action"].includes(first.kind ?? "") && (
            <Link to={to("machines", first.id!)}>
              See {first.id} v{first.version}
            </Link>
          )}
        </>,
      );
    },
  });
}
