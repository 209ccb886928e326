// One node or step, opened: what it got, what it gave, who has it, what can be done.
import { call } from "../../api/call";
import type { GetStepResponseJson, InstanceJson, NodeJson, TokenJson } from "../../api/types";
import { Do } from "../../parts/act";
import { Facts, Panel, Waiting } from "../../parts/bits";
import { Json } from "../../parts/json";
import { Id, Left, Lines, Link, State, Text, Time } from "../../parts/text";
import { useLoad } from "../../state/load";
import { namespace, setQuery, to } from "../../state/route";
import { term } from "../../text/filter";
import { count, duration, percent, plural, word } from "../../text/words";
import { Next, patchOf, resumeOf, skipOf, transitionOf } from "./actions";
import type { Shown } from "./index";

export function NodePanel({
  followed,
  machine,
  plan,
  node,
  nodes = [],
}: Shown & { node: string; nodes?: NodeJson[] }) {
  const one = followed.instance;
  const path = node.replace(/\/(error|suspended)$/, "");
  const step = useLoad(
    (signal) =>
      call("ViewService", "GetStep", { namespace: namespace.value, instance: one.id, path }, signal),
    [one.id, path, one.changeTime],
  );
  const own =
    nodes.find((some) => some.id === node) ?? (machine?.nodes ?? []).find((some) => some.id === node);
  const tokens = step.data?.tokens?.length
    ? step.data.tokens
    : (one.tokens ?? []).filter((token) => token.node === node);
  const transitions = plan
    ? []
    : (own?.transitions ?? []).map((edge) => edge.transition!).filter((name) => !name.startsWith("dfsmr."));
  const close = (
    <button type="button" class="icon" aria-label="Close" onClick={() => setQuery({ node: undefined })}>
      ×
    </button>
  );
  return (
    <Panel title={<Id of={node} />} aside={close} class="node-panel">
      <Waiting on={step} />
      {step.data && <Opened one={one} step={step.data} path={path} />}
      {tokens.map((token) => (
        <TokenFacts key={token.node} token={token} one={one} transitions={transitions} />
      ))}
      {own?.kind && (
        <Facts
          rows={[
            ["Kind", word(own.kind)],
            ["Action", own.action && <Id of={own.action} />],
            [
              "Timeout now",
              own.stats?.timeoutNow && (
                <Link to={to("machines", one.machine!, { version: one.version, node })}>
                  {duration(own.stats.timeoutNow)}
                </Link>
              ),
            ],
            ["p50 · p95", own.stats?.p50 && `${duration(own.stats.p50)} · ${duration(own.stats.p95)}`],
          ]}
        />
      )}
      <p class="quiet">
        <Link to={to("instances", one.id!, { tab: "history", node: path })}>Its history</Link>
        {" · "}
        <Link to={to("instances", one.id!, { tab: "logs", node: path })}>Its logs</Link>
        {" · "}
        <Link to={to("instances", { q: `${term("machine", one.machine!)} ${term("node", path)}` })}>
          Others that stand here
        </Link>
      </p>
    </Panel>
  );
}

function Opened({ one, step, path }: { one: InstanceJson; step: GetStepResponseJson; path: string }) {
  const own = step.step;
  const state = own?.state;
  const live = one.state !== "STOPPED";
  return (
    <>
      {own && (
        <p class="actions">
          <State of={state} />
          {live && state === "HELD" && (
            <>
              <Do class="small" label="Retry" role="OPERATOR" action={() => resumeOf(one, path)} />
              <Do class="small" label="Skip" role="OPERATOR" action={() => skipOf(one, path)} />
              <Do
                class="small"
                label="Patch its input …"
                role="OPERATOR"
                action={() => patchOf(one, path, step.input ?? "{}")}
              />
            </>
          )}
          {live && state === "SUSPENDED" && (
            <>
              <Do class="small" label="Event …" role="OPERATOR" action={() => transitionOf(one, path, "")} />
              <Do
                class="small"
                label="Cancel it"
                role="OPERATOR"
                action={() => transitionOf(one, path, "cancel")}
              />
            </>
          )}
        </p>
      )}
      {own?.error && (
        <p class="notice bad">
          <Lines of={own.error} />
        </p>
      )}
      <Facts
        rows={[
          ["Action", own?.action && <Id of={own.action} />],
          ["Started", own?.startTime && <Time of={own.startTime} />],
          ["Ended", own?.endTime && <Time of={own.endTime} />],
          [
            "Waited · worked",
            (step.waited || step.active) &&
              `${duration(step.waited) || "–"} · ${duration(step.active) || "–"}`,
          ],
          [
            "Tries",
            (step.tries || own?.triesLimit) &&
              `${count(step.tries)} failed${own?.triesLimit ? ` of ${count(own.triesLimit)}` : ""}`,
          ],
          ["Progress", own?.progress && percent(own.progress)],
          ["Worker", own?.worker && <Text of={own.worker} />],
          ["Note", own?.note && <Text of={own.note} />],
          ["If", own?.condition && <Text of={own.condition} />],
          ["Next wake", step.wakeTime && <Time of={step.wakeTime} />],
          ["Queue", step.queue && <Id of={step.queue} />],
          ["Priority", step.priority && count(step.priority)],
          [
            "Children",
            own?.children && (
              <Link to={to("instances", { q: term("parent", `${one.id}/${path}`) })}>
                {`${count(own.children.started)} of ${plural(own.children.total, "child", "children")} started, ${count(own.children.running)} running, ${count(own.children.failed)} failed`}
              </Link>
            ),
          ],
          [
            "Events in wait",
            step.events?.length
              ? step.events.map((event) => (
                  <span key={event} class="chip">
                    <Text of={event} />
                  </span>
                ))
              : "",
          ],
        ]}
      />
      {step.input && (
        <>
          <h3>Input{step.resolved ? "" : ", as it is written"}</h3>
          <Json of={step.input} />
        </>
      )}
      {step.output && (
        <>
          <h3>Output</h3>
          <Json of={step.output} />
        </>
      )}
    </>
  );
}

function TokenFacts({
  token,
  one,
  transitions,
}: {
  token: TokenJson;
  one: InstanceJson;
  transitions: string[];
}) {
  return (
    <div class="token-facts">
      <p class="actions">
        <State of={token.state === "DONE" ? one.result : token.state} />
        <Next one={one} token={token} transitions={transitions} />
      </p>
      {token.error && (
        <p class="notice bad">
          <Lines of={token.error} />
        </p>
      )}
      <Facts
        rows={[
          ["Visit", count(token.visit)],
          ["Attempt", token.attempt && count(token.attempt)],
          ["Why", token.why && <Text of={token.why} />],
          ["Available", token.availableAt && <Time of={token.availableAt} />],
          [
            "Tries",
            token.tries &&
              `${count(token.tries)} failed${token.triesLimit ? ` of ${count(token.triesLimit)}` : ""}`,
          ],
        ]}
      />
      {(token.claims ?? []).map((claim) => (
        <div key={claim.attempt} class="claim">
          <p>
            <b>
              <Text of={claim.worker} />
            </b>
            , attempt {claim.attempt}
            {claim.timedOut ? ", timed out" : ""}
            {claim.lost ? ", lost" : ""}
          </p>
          <p class="quiet">
            since <Time of={claim.claimTime} /> · <Left until={claim.deadline ?? claim.beginBy} />
            {claim.progress ? ` · ${percent(claim.progress)}` : ""}
          </p>
          {claim.note && (
            <p>
              <Text of={claim.note} />
            </p>
          )}
        </div>
      ))}
      {token.params && token.params !== "{}" && (
        <>
          <h3>Params of this visit</h3>
          <Json of={token.params} />
        </>
      )}
      {token.checkpoint && (
        <>
          <h3>Checkpoint</h3>
          <Json of={token.checkpoint} />
        </>
      )}
      {(token.refusals ?? []).map((refusal) => (
        <p key={refusal.time} class="quiet">
          <Text of={refusal.worker} /> refused it: <Text of={refusal.reason} />
        </p>
      ))}
    </div>
  );
}
