// Starting an instance: a form made of the schema of the machine's params. The id is made here, so that
// sending it again starts nothing twice.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/call";
import { toRefusal, type Refusal } from "../api/refusal";
import type { StartRequestJson } from "../api/types";
import { useLoad } from "../state/load";
import { go, namespace, to } from "../state/route";
import { objectProblem, pretty } from "../text/json";
import { argument, type Word } from "../text/shell";
import { AsCommand, sent, tell } from "./act";
import { Field, Refused } from "./bits";
import { Dialog } from "./dialog";
import { loadEditor } from "./editor";
import { fieldProblem, fieldsOf, paramsOf, schemaOf, valuesOf, type FormField } from "./schema";

interface Preset {
  machine: string;
  version?: number;
  params?: string;
  again?: string;
}

const starting = signal<Preset | undefined>();

export function startOf(preset: Preset): void {
  starting.value = preset;
}

export function StartDialog() {
  return starting.value ? (
    <OneStart
      preset={starting.value}
      close={() => {
        starting.value = undefined;
      }}
    />
  ) : null;
}

function newId(machine: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  return `${machine || "instance"}-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

interface More {
  id: string;
  priority: string;
  labels: string;
  startAt: string;
  hold: boolean;
  dryRun: boolean;
}

function labelsOf(text: string): Record<string, string> | undefined {
  const pairs = text
    .split(/[\s,]+/)
    .filter((pair) => pair.includes("="))
    .map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1)] as const;
    });
  return pairs.length > 0 ? Object.fromEntries(pairs) : undefined;
}

function requestOf(
  machine: string,
  version: number | undefined,
  params: string,
  more: More,
): StartRequestJson {
  const at = more.startAt ? new Date(more.startAt) : undefined;
  return {
    namespace: namespace.value,
    machine,
    version,
    id: more.id,
    params: params === "{}" ? undefined : params,
    priority: more.priority ? Number(more.priority) : undefined,
    labels: labelsOf(more.labels),
    startAt: at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined,
    hold: more.hold || undefined,
    dryRun: more.dryRun || undefined,
  };
}

function dcliOf(request: StartRequestJson): Word[] {
  return [
    "start",
    argument(request.machine),
    "--id",
    request.id,
    ...(request.params ? ["--params", request.params] : []),
    ...(request.priority ? ["--priority", String(request.priority)] : []),
    ...(request.startAt ? ["--at", request.startAt] : []),
    ...Object.entries(request.labels ?? {}).flatMap(([key, value]) => ["--label", `${key}=${value}`]),
    request.hold && "--hold",
    request.dryRun && "--dry-run",
  ];
}

function OneStart({ preset, close }: { preset: Preset; close: () => void }) {
  const [machine, setMachine] = useState(preset.machine);
  const [params, setParams] = useState(preset.params ? pretty(preset.params) : "");
  const [more, setMore] = useState<More>(() => ({
    id: newId(preset.machine),
    priority: "",
    labels: "",
    startAt: "",
    hold: false,
    dryRun: false,
  }));
  const [refusal, setRefusal] = useState<Refusal | undefined>();
  const form = useLoad(
    async (signal) => {
      if (machine === "") return undefined;
      const [found, editor] = await Promise.all([
        call(
          "RunnerService",
          "GetMachine",
          { namespace: namespace.value, id: machine, version: preset.version },
          signal,
        ),
        loadEditor(),
      ]);
      return { of: machine, fields: fieldsOf(schemaOf(editor.readYaml(found.source ?? ""), machine)) };
    },
    [machine, preset.version],
  );
  const fields = form.data?.of === machine ? form.data.fields : undefined;
  const request = requestOf(machine, preset.version, params, more);
  const problem = objectProblem(params);
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      const reply = await call("RunnerService", "Start", request);
      tell(
        reply.created
          ? `${reply.instance?.id} has been started.`
          : `${reply.instance?.id} was there already.`,
      );
      close();
      go(to("instances", reply.instance!.id!));
    } catch (error) {
      setRefusal(toRefusal(error));
    }
  };
  const choose = (name: string) => {
    setMachine(name);
    setMore({ ...more, id: newId(name) });
  };
  return (
    <Dialog
      title={
        preset.again ? `Start ${preset.again} again` : machine ? `Start ${machine}` : "Start an instance"
      }
      close={close}
      wide
    >
      <form onSubmit={submit}>
        {preset.again && (
          <p class="about">A new instance, with the params of that one: change what you like.</p>
        )}
        {!preset.machine && <ChooseMachine of={machine} choose={choose} />}
        <Refused refusal={form.refusal} />
        {machine !== "" && <Params fields={fields} params={params} set={setParams} problem={problem} />}
        <MoreFields more={more} set={setMore} />
        <Refused refusal={refusal} />
        <footer>
          <button type="button" onClick={close}>
            Back
          </button>
          <button type="submit" class="primary" disabled={machine === "" || problem !== ""}>
            Start
          </button>
        </footer>
        <AsCommand
          send={() => sent("RunnerService", "Start", request)}
          dcli={() => dcliOf(request)}
          values={{}}
        />
      </form>
    </Dialog>
  );
}

function ChooseMachine({ of, choose }: { of: string; choose: (name: string) => void }) {
  const machines = useLoad(
    (signal) => call("RunnerService", "ListMachines", { namespace: namespace.value, pageSize: 1000 }, signal),
    [namespace.value],
  );
  const names = (machines.data?.machines ?? [])
    .filter((machine) => machine.kind !== "action" && !machine.retired)
    .map((machine) => machine.id!);
  if (machines.data && names.length === 0)
    return <p class="about">No machine is defined yet: define one first.</p>;
  return (
    <Field label="Machine">
      {(id) => (
        <select id={id} value={of} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">Choose one</option>
          {names.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

// By a form, or as JSON: both show the same params.
function Params({
  fields,
  params,
  set,
  problem,
}: {
  fields: FormField[] | undefined;
  params: string;
  set: (params: string) => void;
  problem: string;
}) {
  const [json, setJson] = useState(false);
  const { values, others } = valuesOf(fields ?? [], params);
  useEffect(() => {
    if (fields && params === "") set(paramsOf(fields, values, others));
  }, [fields]);
  const formed = fields && fields.length > 0 && !json && problem === "";
  const change = (key: string, text: string) => set(paramsOf(fields!, { ...values, [key]: text }, others));
  return (
    <div class="params">
      {formed ? (
        fields.map((field) => (
          <OneField
            key={field.key}
            field={field}
            value={values[field.key] ?? ""}
            change={(text) => change(field.key, text)}
          />
        ))
      ) : (
        <Field label="Params" hint="A JSON object; numbers are kept as they are written." problem={problem}>
          {(id) => (
            <textarea
              id={id}
              class="mono"
              rows={7}
              spellcheck={false}
              value={params}
              onInput={(event) => set(event.currentTarget.value)}
            />
          )}
        </Field>
      )}
      {formed && others.length > 0 && (
        <p class="hint">And {others.map(([key]) => key).join(", ")}, as JSON.</p>
      )}
      {fields && fields.length > 0 && (
        <button type="button" class="link" onClick={() => setJson(!json)}>
          {json ? "As a form" : "As JSON"}
        </button>
      )}
    </div>
  );
}

function OneField({
  field,
  value,
  change,
}: {
  field: FormField;
  value: string;
  change: (text: string) => void;
}) {
  const [text, setText] = useState(value);
  const problem = fieldProblem(field, text);
  useEffect(() => {
    if (fieldProblem(field, value) === "") setText(value);
  }, [value]);
  const input = (event: { currentTarget: { value: string } }) => {
    setText(event.currentTarget.value);
    if (fieldProblem(field, event.currentTarget.value) === "") change(event.currentTarget.value);
  };
  const label = (
    <>
      {field.key}
      {field.required && <span class="quiet"> required</span>}
    </>
  );
  return (
    <Field label={label} hint={field.hint} problem={text === "" ? "" : problem}>
      {(id) => {
        if (field.kind === "boolean" || field.kind === "enum") {
          const choices = field.kind === "boolean" ? ["true", "false"] : field.choices;
          return (
            <select id={id} value={text} onChange={input}>
              <option value="">–</option>
              {choices.map((choice) => (
                <option key={choice} value={choice}>
                  {choice}
                </option>
              ))}
            </select>
          );
        }
        if (field.kind === "json")
          return <textarea id={id} class="mono" rows={3} spellcheck={false} value={text} onInput={input} />;
        return (
          <input
            id={id}
            class={field.kind === "string" ? "" : "mono"}
            value={text}
            onInput={input}
            inputMode={field.kind === "string" ? "text" : "decimal"}
          />
        );
      }}
    </Field>
  );
}

function MoreFields({ more, set }: { more: More; set: (more: More) => void }) {
  const text = (name: "id" | "priority" | "labels" | "startAt", label: string, hint: string) => (
    <Field label={label} hint={hint}>
      {(id) => {
        const input = (event: { currentTarget: { value: string } }) =>
          set({ ...more, [name]: event.currentTarget.value });
        return name === "startAt" ? (
          <input id={id} type="datetime-local" value={more[name]} onInput={input} />
        ) : (
          <input id={id} class="mono" value={more[name]} onInput={input} />
        );
      }}
    </Field>
  );
  const check = (name: "hold" | "dryRun", label: string, hint: string) => (
    <label class="check">
      <input
        type="checkbox"
        checked={more[name]}
        onChange={(event) => set({ ...more, [name]: event.currentTarget.checked })}
      />
      <span>
        {label}
        <small>{hint}</small>
      </span>
    </label>
  );
  return (
    <details class="more-fields">
      <summary>Id, labels, priority, when</summary>
      <div class="columns">
        {text("id", "Id", "The same id again starts nothing twice.")}
        {text("labels", "Labels", "site=eu team=shop")}
        {text("priority", "Priority", "Higher is handed out first.")}
        {text("startAt", "Not before", "Your local time.")}
        {check("hold", "Held", "Begins when it is resumed.")}
        {check("dryRun", "Dry run", "Walks it without effects.")}
      </div>
    </details>
  );
}
