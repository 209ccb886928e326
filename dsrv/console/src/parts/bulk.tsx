// One change of many instances: a preview tells how many, the button carries the number.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { call } from "../api/call";
import { toRefusal, type Refusal } from "../api/refusal";
import type {
  BulkJson,
  CancelRequest_ModeJson,
  StartBulkRequest_ActionJson,
  StartBulkRequestJson,
} from "../api/types";
import { useLoad } from "../state/load";
import { namespace, to } from "../state/route";
import { quoteValue } from "../text/filter";
import { objectProblem } from "../text/json";
import { argument, type Word } from "../text/shell";
import { capital, count, plural, word } from "../text/words";
import { AsCommand, sent, tell } from "./act";
import { Field, Refused } from "./bits";
import { Dialog } from "./dialog";
import { Id, Link } from "./text";

type What = Pick<StartBulkRequestJson, "action" | "filter" | "instances">;
const TYPED_FROM = 1000;

const chosen = signal<What | undefined>();

export function bulkOf(what: What): void {
  chosen.value = what;
}

export function BulkDialog() {
  return chosen.value ? (
    <OneBulk
      what={chosen.value}
      close={() => {
        chosen.value = undefined;
      }}
    />
  ) : null;
}

// Options of the actions, as they were typed.
interface Options {
  node: string;
  transition: string;
  params: string;
  mode: CancelRequest_ModeJson;
  reason: string;
}

function requestOf(what: What, options: Options): StartBulkRequestJson {
  const { action } = what;
  return {
    namespace: namespace.value,
    ...what,
    reason: options.reason || undefined,
    ...(action === "CANCEL" ? { mode: options.mode } : {}),
    ...(action === "RESUME" || action === "SKIP" || action === "TRANSITION"
      ? { node: options.node || undefined }
      : {}),
    ...(action === "TRANSITION"
      ? { transition: options.transition, nodeParams: options.params || undefined }
      : {}),
  };
}

function dcliOf(request: StartBulkRequestJson): Word[] {
  const filter = request.filter ?? `id:${(request.instances ?? []).map(quoteValue).join(",")}`;
  const mode = request.mode === "FORCE" ? "--force" : request.mode === "KILL" ? "--kill" : false;
  return [
    word(request.action),
    request.transition !== undefined && argument(request.transition),
    "--filter",
    filter,
    mode,
    ...(request.node ? ["--node", request.node] : []),
    ...(request.nodeParams ? ["--params", request.nodeParams] : []),
    ...(request.atMost ? ["--at-most", String(request.atMost)] : []),
    ...(request.reason ? ["--reason", request.reason] : []),
    "--yes",
  ];
}

function OneBulk({ what, close }: { what: What; close: () => void }) {
  const [options, setOptions] = useState<Options>({
    node: "",
    transition: "",
    params: "",
    mode: "CANCEL",
    reason: "",
  });
  const [settled, setSettled] = useState(what.action !== "TRANSITION");
  const [refusal, setRefusal] = useState<Refusal | undefined>();
  const [typed, setTyped] = useState("");
  const request = requestOf(what, options);
  const { reason: _, ...looked } = request;
  const preview = useLoad(
    async (signal) =>
      settled ? call("BulkService", "StartBulk", { ...looked, validateOnly: true }, signal) : undefined,
    [looked, settled],
  );
  const bulk = settled ? preview.data : undefined;
  const many = Number(bulk?.changed ?? 0);
  const last: StartBulkRequestJson = { ...request, atMost: String(Math.ceil(many * 1.1)) };
  const confirmed = many < TYPED_FROM || typed.replace(/\D/g, "") === String(many);
  const set = (change: Partial<Options>) => setOptions({ ...options, ...change });
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!settled) return setSettled(true);
    if (many === 0 || !confirmed) return undefined;
    try {
      const started = await call("BulkService", "StartBulk", last);
      tell(
        <>
          Started. <Link to={to("bulks", { id: started.request?.id })}>See how it goes</Link>
        </>,
      );
      close();
    } catch (error) {
      setRefusal(toRefusal(error));
    }
    return undefined;
  };
  const verb = capital(word(what.action));
  const whom = what.instances
    ? plural(what.instances.length, "selected instance")
    : what.filter
      ? "all that match"
      : "all instances";
  return (
    <Dialog title={`${verb} ${whom}`} close={close}>
      <form onSubmit={submit}>
        <OptionFields
          action={what.action!}
          options={options}
          set={(change) => {
            set(change);
            if (what.action === "TRANSITION") setSettled(false);
          }}
        />
        {settled && <Preview bulk={bulk} refusal={preview.refusal} selected={what.instances?.length} />}
        <Field label="Reason" hint="The note of each change, and in the audit log.">
          {(id) => (
            <input
              id={id}
              value={options.reason}
              onInput={(event) => set({ reason: event.currentTarget.value })}
            />
          )}
        </Field>
        {many >= TYPED_FROM && (
          <Field
            label={
              <>
                To go on type the number <b>{count(many)}</b>
              </>
            }
          >
            {(id) => (
              <input
                id={id}
                inputMode="numeric"
                autocomplete="off"
                value={typed}
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
          {settled ? (
            <button
              type="submit"
              class={what.action === "CANCEL" || what.action === "SKIP" ? "danger" : "primary"}
              disabled={!bulk || many === 0 || !confirmed}
            >
              {verb} {bulk ? plural(many, "instance") : "…"}
            </button>
          ) : (
            <button
              type="submit"
              class="primary"
              disabled={options.transition === "" || objectProblem(options.params) !== ""}
            >
              Preview
            </button>
          )}
        </footer>
        <AsCommand
          send={() => sent("BulkService", "StartBulk", last)}
          dcli={() => dcliOf(last)}
          values={{}}
        />
      </form>
    </Dialog>
  );
}

function OptionFields({
  action,
  options,
  set,
}: {
  action: StartBulkRequest_ActionJson;
  options: Options;
  set: (change: Partial<Options>) => void;
}) {
  const text = (name: "node" | "transition" | "params", label: string, hint: string) => (
    <Field label={label} hint={hint} problem={name === "params" ? objectProblem(options.params) : ""}>
      {(id) => (
        <input
          id={id}
          class="mono"
          value={options[name]}
          onInput={(event) => set({ [name]: event.currentTarget.value })}
        />
      )}
    </Field>
  );
  if (action === "CANCEL") {
    return (
      <Field label="How">
        {(id) => (
          <select
            id={id}
            value={options.mode}
            onChange={(event) => set({ mode: event.currentTarget.value as CancelRequest_ModeJson })}
          >
            <option value="CANCEL">Let claimed work end first</option>
            <option value="FORCE">At once, do not wait for workers</option>
            <option value="KILL">At once, and have agents kill it</option>
          </select>
        )}
      </Field>
    );
  }
  if (action === "TRANSITION") {
    return (
      <>
        {text("transition", "Transition", "Its name, or an event's.")}
        {text("node", "From the node", "Empty: where each stands.")}
        {text("params", "Params for the next node", "A JSON object; may be empty.")}
      </>
    );
  }
  if (action === "RESUME" || action === "SKIP")
    return text("node", "Held at", "A node, node.* for all of a for_each; empty: whatever is held.");
  return null;
}

function Preview({
  bulk,
  refusal,
  selected,
}: {
  bulk: BulkJson | undefined;
  refusal: Refusal | undefined;
  selected: number | undefined;
}) {
  if (refusal) return <Refused refusal={refusal} />;
  if (!bulk) return <p class="waiting">Counting …</p>;
  const least = bulk.atLeast ? "at least " : "";
  const missing = bulk.atLeast ? 0 : (selected ?? 0) - Number(bulk.matched ?? 0);
  return (
    <div class="preview">
      <p>
        <b>
          {least}
          {count(bulk.changed)}
        </b>{" "}
        would change, {count(bulk.unchanged)} are so already, {count(bulk.refused)} would be refused ({least}
        {count(bulk.matched)} match).
      </p>
      {missing > 0 && (
        <p>
          <b>{count(missing)}</b> of the selected {missing === 1 ? "is" : "are"} not there any more.
        </p>
      )}
      {Object.entries(bulk.reasons ?? {}).map(([why, number]) => (
        <p key={why}>
          {count(number)} <code>{why}</code>
        </p>
      ))}
      {(bulk.sample ?? []).length > 0 && (
        <details>
          <summary>The first of them</summary>
          <ul class="plain sample">
            {bulk.sample!.map((id) => (
              <li key={id}>
                <Link to={to("instances", id)}>
                  <Id of={id} />
                </Link>
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}
