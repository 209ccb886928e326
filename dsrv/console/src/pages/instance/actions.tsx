// What may be done with an instance: as the table of states and actions in executions.md has it.
import type { CancelRequest_ModeJson, InstanceJson, TokenJson } from "../../api/types";
import { Do, sent, type Action } from "../../parts/act";
import { startOf } from "../../parts/start";
import { Id } from "../../parts/text";
import { namespace } from "../../state/route";
import { clean } from "../../text/clean";
import { objectProblem, pretty } from "../../text/json";
import { argument } from "../../text/shell";

export function isHeld(one: InstanceJson): boolean {
  return (one.tokens ?? []).some((token) => token.state === "HELD");
}

function isCancelling(one: InstanceJson): boolean {
  return !!one.cancel && one.cancel !== "MODE_UNSPECIFIED" && one.state !== "STOPPED";
}

export type Verb = "pause" | "resume" | "rerun" | "skip" | "cancel" | "force" | "kill";

// Whether it would change something in the state that it is in.
export function legal(verb: Verb, one: InstanceJson): boolean {
  const stopped = one.state === "STOPPED";
  const cancelling = isCancelling(one);
  switch (verb) {
    case "pause":
      return !stopped && one.state !== "PAUSED" && !cancelling;
    case "resume":
      return stopped
        ? !!one.resumable
        : !cancelling &&
            (one.state === "PAUSED" ||
              isHeld(one) ||
              (one.waitsFor ?? []).some((wait) => wait.kind === "HOLD"));
    case "rerun":
      return stopped
        ? !!one.resumable
        : !cancelling &&
            (one.state === "PAUSED" ||
              (one.tokens ?? []).some((token) => token.state === "CLAIMED" || token.state === "HELD"));
    case "skip":
      return !stopped && !cancelling && isHeld(one);
    case "cancel":
      return !stopped && !cancelling;
    case "force":
      return !stopped;
    case "kill":
      return !stopped || Number(one.leftovers ?? 0) > 0;
  }
}

function base(one: InstanceJson): { namespace: string; instance: string } {
  return { namespace: namespace.value, instance: one.id! };
}

function reasonWords(reason: string | undefined): string[] {
  return reason ? ["--reason", reason] : [];
}

function cancelOf(one: InstanceJson, mode: CancelRequest_ModeJson, verb: string, about: string): Action {
  const flag = mode === "FORCE" ? "--force" : mode === "KILL" ? "--kill" : false;
  return {
    title: `${verb} ${clean(one.id ?? "")}`,
    verb,
    danger: true,
    reason: true,
    about,
    send: ({ reason }) => sent("RunnerService", "Cancel", { ...base(one), mode, reason }),
    dcli: ({ reason }) => ["cancel", argument(one.id), flag, ...reasonWords(reason)],
  };
}

export function resumeOf(one: InstanceJson, node = "", force = false): Action {
  const what = node ? ` at ${clean(node)}` : "";
  return {
    title: `${force ? "Force" : node ? "Retry" : "Resume"} ${clean(one.id ?? "")}${what}`,
    verb: force ? "Force" : node ? "Retry" : "Resume",
    reason: true,
    danger: force,
    about: force
      ? "What is claimed and not reported is handed out again: it may run twice."
      : node
        ? "The step is handed out again, with a new set of tries."
        : "It goes on; all that is held is tried again.",
    send: ({ reason }) => sent("RunnerService", "Resume", { ...base(one), node, force, reason }),
    dcli: ({ reason }) => [
      "resume",
      argument(one.id),
      ...(node ? ["--node", node] : []),
      force && "--force",
      ...reasonWords(reason),
    ],
  };
}

export function skipOf(one: InstanceJson, node = ""): Action {
  return {
    title: `Skip ${node ? clean(node) : "what is held"} of ${clean(one.id ?? "")}`,
    verb: "Skip",
    danger: true,
    reason: true,
    about: "It goes on without it, and without the steps that need its output.",
    send: ({ reason }) => sent("RunnerService", "Skip", { ...base(one), node, reason }),
    dcli: ({ reason }) => [
      "skip",
      argument(one.id),
      ...(node ? ["--node", node] : []),
      ...reasonWords(reason),
    ],
  };
}

function pauseOf(one: InstanceJson): Action {
  return {
    title: `Pause ${clean(one.id ?? "")}`,
    verb: "Pause",
    reason: true,
    about: "Nothing more of it is handed out; what is claimed may report.",
    send: ({ reason }) => sent("RunnerService", "Pause", { ...base(one), reason }),
    dcli: ({ reason }) => ["pause", argument(one.id), ...reasonWords(reason)],
  };
}

// A transition by hand: of a node's own, or an event of any name.
export function transitionOf(one: InstanceJson, node: string, transition: string): Action {
  const event = transition === "";
  return {
    title: event
      ? `Send an event to ${clean(node || one.id || "")}`
      : `${clean(transition)} from ${clean(node)}`,
    verb: event ? "Send" : "Move",
    about: (
      <>
        Of <Id of={one.id} />, from outside: as an operator.
      </>
    ),
    reason: true,
    fields: [
      ...(event
        ? [
            {
              name: "transition",
              label: "Event",
              problem: (text: string) => (text ? "" : "It needs a name."),
            },
          ]
        : []),
      {
        name: "params",
        label: event ? "Its data" : "Params for the next node",
        kind: "lines",
        hint: "A JSON object; may be empty.",
        problem: objectProblem,
      },
    ],
    send: ({ reason, params, transition: named }) =>
      sent("RunnerService", "Transition", {
        ...base(one),
        node,
        transition: named || transition,
        nodeParams: params || undefined,
        reason,
      }),
    dcli: ({ reason, params, transition: named }) => [
      "transition",
      argument(one.id),
      argument(named || transition || "EVENT"),
      ...(node ? ["--node", node] : []),
      ...(params ? ["--params", params] : []),
      ...reasonWords(reason),
    ],
  };
}

export function patchOf(one: InstanceJson, step: string, input: string): Action {
  return {
    title: `Patch the input of ${clean(step)}`,
    verb: "Patch",
    reason: true,
    wide: true,
    about: "Only what is given changes; the change is in the history. Then retry the step.",
    fields: [
      {
        name: "params",
        label: "What changes",
        kind: "lines",
        value: pretty(input),
        problem: (text) => (text ? objectProblem(text) : "It is empty."),
      },
    ],
    send: ({ reason, params }) =>
      sent("RunnerService", "Transition", {
        ...base(one),
        node: step,
        transition: "patch",
        nodeParams: params,
        reason,
      }),
    dcli: ({ reason, params }) => [
      "transition",
      argument(one.id),
      argument("patch"),
      "--node",
      step,
      "--params",
      params,
      ...reasonWords(reason),
    ],
  };
}

export function Control({ one }: { one: InstanceJson }) {
  const may = (verb: Verb) => legal(verb, one);
  return (
    <>
      {may("pause") && <Do label="Pause" role="OPERATOR" action={() => pauseOf(one)} />}
      {may("resume") && <Do label="Resume" role="OPERATOR" class="primary" action={() => resumeOf(one)} />}
      {may("rerun") && <Do label="Force" role="OPERATOR" action={() => resumeOf(one, "", true)} />}
      {may("skip") && <Do label="Skip" role="OPERATOR" action={() => skipOf(one)} />}
      {may("cancel") && (
        <Do
          label="Cancel"
          role="OPERATOR"
          action={() =>
            cancelOf(
              one,
              "CANCEL",
              "Cancel",
              "What is claimed may end first; then it stops with CANCELLED. Its children are cancelled, too.",
            )
          }
        />
      )}
      {may("force") && (
        <Do
          label="Cancel at once"
          role="OPERATOR"
          action={() =>
            cancelOf(
              one,
              "FORCE",
              "Cancel at once",
              "It stops now, with CANCELLED; reports of what is claimed are refused.",
            )
          }
        />
      )}
      {may("kill") && (
        <Do
          label="Kill"
          role="OPERATOR"
          action={() =>
            cancelOf(
              one,
              "KILL",
              "Kill",
              one.state === "STOPPED"
                ? "Agents kill what it has left behind."
                : "It stops now, and agents kill what they run of it.",
            )
          }
        />
      )}
      <Do
        label="Start again"
        role="WORKER"
        action={() => startOf({ machine: one.machine!, params: one.params, again: one.id })}
      />
    </>
  );
}

// What the token can do next, by hand.
export function Next({
  one,
  token,
  transitions,
}: {
  one: InstanceJson;
  token: TokenJson;
  transitions: string[];
}) {
  const node = token.node!;
  if (one.state === "STOPPED" || token.state === "DONE") return null;
  return (
    <span class="next">
      {token.state === "HELD" && (
        <>
          <Do class="small" label="Retry" role="OPERATOR" action={() => resumeOf(one, node)} />
          <Do class="small" label="Skip" role="OPERATOR" action={() => skipOf(one, node)} />
        </>
      )}
      {transitions.map((name) => (
        <Do
          key={name}
          class="small"
          label={clean(name)}
          role="OPERATOR"
          action={() => transitionOf(one, node, name)}
        />
      ))}
      <Do class="small" label="Event …" role="OPERATOR" action={() => transitionOf(one, node, "")} />
    </span>
  );
}
