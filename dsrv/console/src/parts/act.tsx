// One dialog for all actions: it says what will happen, takes a reason, shows the action as a command,
// and shows the server's answer when that is a refusal.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { call, methodPath } from "../api/call";
import { toRefusal, type Refusal } from "../api/refusal";
import type { MethodName, RequestOf, ServiceName } from "../api/types";
import { namespace } from "../state/route";
import { authOff, may, type Role } from "../state/session";
import { curlLine, dcliLine, type Word } from "../text/shell";
import { Command, Field, Refused } from "./bits";
import { Dialog } from "./dialog";

export interface FieldSpec {
  name: string;
  label: string;
  kind?: "text" | "lines" | "check" | "choice" | "number";
  value?: string;
  choices?: [string, string][];
  hint?: string;
  // Why the value will not do; empty: it will.
  problem?: (value: string) => string;
}

export type Values = Record<string, string>;

interface Sent {
  service: string;
  method: string;
  request: object;
}

export interface Action {
  title: string; // "Cancel page-1"
  verb: string; // on the button
  about?: ComponentChildren; // what will happen
  danger?: boolean;
  fields?: FieldSpec[];
  reason?: boolean; // asks for a reason, as "reason"
  typed?: string; // must be typed before the button works
  send?: (values: Values) => Sent;
  local?: (values: Values) => void; // in place of `send`: concerns this browser alone
  dcli?: (values: Values) => Word[];
  done?: (reply: never) => ComponentChildren | void;
  wide?: boolean;
}

// One call of a method, with its types checked.
export function sent<S extends ServiceName, M extends MethodName<S>>(
  service: S,
  method: M,
  request: RequestOf<S, M>,
): Sent {
  return { service, method, request: request as object };
}

const asking = signal<Action | undefined>();
export const notice = signal<{ text: ComponentChildren; id: number } | undefined>();
let notices = 0;

export function tell(text: ComponentChildren): void {
  const id = ++notices;
  notice.value = { text, id };
  setTimeout(() => {
    if (notice.value?.id === id) notice.value = undefined;
  }, 8000);
}

export function act(action: Action): void {
  asking.value = action;
}

export function ActionDialog() {
  const action = asking.value;
  if (!action) return null;
  return (
    <OneAction
      key={action.title}
      action={action}
      close={() => {
        asking.value = undefined;
      }}
    />
  );
}

function withReason(action: Action): FieldSpec[] {
  const reason: FieldSpec[] = action.reason
    ? [{ name: "reason", label: "Reason", hint: "Kept in the history and the audit log." }]
    : [];
  return [...(action.fields ?? []), ...reason];
}

function OneAction({ action, close }: { action: Action; close: () => void }) {
  const fields = withReason(action);
  const [values, setValues] = useState<Values>(() =>
    Object.fromEntries(fields.map((field) => [field.name, field.value ?? ""])),
  );
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<Refusal | undefined>();
  const [answer, setAnswer] = useState<ComponentChildren>();
  const problems = fields.map((field) => field.problem?.(values[field.name]!) ?? "");
  const ready =
    !busy && problems.every((problem) => problem === "") && (!action.typed || typed === action.typed);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!ready) return;
    setBusy(true);
    setRefusal(undefined);
    try {
      action.local?.(values);
      if (!action.send) return close();
      const { service, method, request } = action.send(values);
      const reply = await call(service as never, method as never, request as never);
      const shown = action.done?.(reply);
      if (shown) setAnswer(shown);
      else close();
    } catch (error) {
      setRefusal(toRefusal(error));
    }
    setBusy(false);
  };
  if (answer) {
    return (
      <Dialog title={action.title} close={close} wide={action.wide}>
        {answer}
        <footer>
          <button type="button" class="primary" onClick={close}>
            Close
          </button>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title={action.title} close={close} wide={action.wide}>
      <form onSubmit={submit}>
        {action.about && <div class="about">{action.about}</div>}
        {fields.map((field, i) => (
          <Asked
            key={field.name}
            field={field}
            problem={problems[i]!}
            value={values[field.name]!}
            change={(value) => setValues({ ...values, [field.name]: value })}
          />
        ))}
        {action.typed && (
          <Field
            label={
              <>
                To go on type <b>{action.typed}</b>
              </>
            }
          >
            {(id) => (
              <input
                id={id}
                value={typed}
                autocomplete="off"
                onInput={(event) => setTyped(event.currentTarget.value)}
              />
            )}
          </Field>
        )}
        <Refused refusal={refusal} />
        <footer>
          <button type="button" onClick={close}>
            Back
          </button>
          <button type="submit" class={action.danger ? "danger" : "primary"} disabled={!ready}>
            {action.verb}
          </button>
        </footer>
        {action.send && <AsCommand send={action.send} dcli={action.dcli} values={values} />}
      </form>
    </Dialog>
  );
}

function Asked({
  field,
  value,
  problem,
  change,
}: {
  field: FieldSpec;
  value: string;
  problem: string;
  change: (value: string) => void;
}) {
  if (field.kind === "check") {
    return (
      <label class="check">
        <input
          type="checkbox"
          checked={value === "true"}
          onChange={(event) => change(String(event.currentTarget.checked))}
        />
        <span>
          {field.label}
          {field.hint && <small>{field.hint}</small>}
        </span>
      </label>
    );
  }
  return (
    <Field label={field.label} hint={field.hint} problem={value === "" ? "" : problem}>
      {(id) => {
        const input = (event: { currentTarget: { value: string } }) => change(event.currentTarget.value);
        if (field.kind === "lines")
          return <textarea id={id} class="mono" rows={6} spellcheck={false} value={value} onInput={input} />;
        if (field.kind === "choice") {
          return (
            <select id={id} value={value} onChange={input}>
              {field.choices!.map(([name, label]) => (
                <option key={name} value={name}>
                  {label}
                </option>
              ))}
            </select>
          );
        }
        return (
          <input
            id={id}
            value={value}
            inputMode={field.kind === "number" ? "numeric" : "text"}
            autocomplete="off"
            onInput={input}
          />
        );
      }}
    </Field>
  );
}

export function AsCommand({
  send,
  dcli,
  values,
}: Pick<Action, "dcli"> & { send: (values: Values) => Sent; values: Values }) {
  let curl = "";
  try {
    const { service, method, request } = send(values);
    curl = curlLine(location.origin + methodPath(service, method), request, !authOff.value);
  } catch {
    return null; // what was typed so far is no request yet
  }
  const line = dcli ? dcliLine(dcli(values), namespace.value) : "";
  return (
    <details class="commands">
      <summary>The same as a command</summary>
      {line && (
        <>
          <h3>As dcli</h3>
          <Command of={line} />
        </>
      )}
      <h3>As curl</h3>
      <Command of={curl} />
    </details>
  );
}

// A button of an action. What the caller may not do is greyed, with the role that it takes; what is not
// legal now is greyed, with why.
export function Do({
  label,
  role,
  action,
  why,
  class: style,
  space,
}: {
  label: ComponentChildren;
  role: Role;
  action: () => Action | void;
  why?: string;
  class?: string;
  space?: string;
}) {
  const allowed = may(role, space);
  const hint = allowed
    ? why
    : `takes the role ${role.toLowerCase()}${space === "*" ? " of all namespaces" : ""}`;
  const run = () => {
    if (hint) return;
    const made = action();
    if (made) act(made);
  };
  return (
    <button type="button" class={style} aria-disabled={hint ? "true" : undefined} title={hint} onClick={run}>
      {label}
      {!allowed && <span class="needs"> {role.toLowerCase()}</span>}
    </button>
  );
}
