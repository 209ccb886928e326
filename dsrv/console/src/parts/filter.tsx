// The search box: a filter, kept in the address. "/" goes to it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { bind } from "../state/keys";
import { query, setQuery } from "../state/route";
import type { Refusal } from "../api/refusal";
import { clean } from "../text/clean";

const KEYS: [string, string][] = [
  ["state:", "scheduled, planning, running, paused, stopped"],
  ["is:", "ready, claimed, waiting, held, suspended, late, retried, root"],
  ["result:", "success, warning, error, cancelled, aborted"],
  ["machine:", "a name; * at its end matches the rest"],
  ["node:", "a node, or a plan's step"],
  ["error:", "text in the error, quoted when it has spaces"],
  ["changed:", "FROM..TO, such as -30m.. or ..-2h"],
  ["started:", "likewise; also ended:"],
  ["label.", "label.site:eu"],
  ["worker:", "who has a claim on it"],
  ["parent:", "an instance; also after:, group:, schedule:, trigger:, package:"],
  ["version:", "a number or a range; also priority: and progress:"],
];

export function FilterBox({ refusal }: { refusal: Refusal | undefined }) {
  const asked = query.value.get("q") ?? "";
  const [text, setText] = useState(asked);
  const [open, setOpen] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLFormElement>(null);
  useEffect(() => setText(asked), [asked]);
  useLayoutEffect(
    () =>
      bind("/", "filter", () => {
        input.current?.focus();
        input.current?.select();
      }),
    [],
  );
  const apply = (filter: string) => {
    setText(filter);
    setQuery({ q: filter.trim() }, true);
    setOpen(false);
  };
  const add = (key: string) => {
    setText(`${text}${text === "" || text.endsWith(" ") ? "" : " "}${key}`);
    input.current?.focus();
  };
  const left = (event: FocusEvent) => {
    if (!(event.relatedTarget instanceof Node && box.current?.contains(event.relatedTarget))) setOpen(false);
  };
  return (
    <form
      ref={box}
      class="filter"
      role="search"
      onFocusOut={left}
      onSubmit={(event) => {
        event.preventDefault();
        apply(text);
      }}
    >
      <div class="row">
        <input
          ref={input}
          value={text}
          spellcheck={false}
          autocomplete="off"
          class="mono"
          aria-label="Filter"
          placeholder="Filter: an id's begin, or terms such as  machine:order is:held -node:pay"
          onFocus={() => setOpen(true)}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Escape") return;
            setText(asked);
            input.current?.blur();
          }}
        />
        {asked !== "" && (
          <button type="button" class="small" onClick={() => apply("")}>
            Clear
          </button>
        )}
        <button type="submit" class="small">
          Filter
        </button>
      </div>
      {refusal?.reason === "BAD_FILTER" && (
        <p class="problem" role="alert">
          {clean(refusal.message)}
        </p>
      )}
      {open && (
        <div class="hints">
          <p>
            All terms must hold. <code>-term</code> excludes, <code>a,b</code> is a or b.
          </p>
          <ul>
            {KEYS.map(([key, what]) => (
              <li key={key}>
                <button type="button" class="link" onClick={() => add(key)}>
                  <code>{key}</code>
                </button>
                <span>{what}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </form>
  );
}
