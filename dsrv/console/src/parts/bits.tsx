// Small parts: notices, empty states, buttons to copy, tabs, fields.
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { Refusal } from "../api/refusal";
import type { Loaded } from "../state/load";
import { query, setQuery } from "../state/route";
import { clean, cleanLines } from "../text/clean";
import { capital } from "../text/words";

export function Refused({ refusal }: { refusal: Refusal | undefined }) {
  if (!refusal) return null;
  return (
    <div class="notice bad" role="alert">
      {cleanLines(refusal.message)}
      {refusal.reason ? <code class="reason">{clean(refusal.reason)}</code> : null}
    </div>
  );
}

// What a list says while it has nothing: why, and what to do next.
export function Empty({
  title,
  children,
  command,
  page,
}: {
  title: string;
  children?: ComponentChildren;
  command?: string;
  page?: boolean; // in place of a whole page, whose head it is
}) {
  return (
    <div class="empty">
      {page ? (
        <h1>{title}</h1>
      ) : (
        <p>
          <strong>{title}</strong>
        </p>
      )}
      {children && <p>{children}</p>}
      {command && <Command of={command} />}
    </div>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <button type="button" class="small" onClick={copy}>
      {copied ? "Copied" : label}
    </button>
  );
}

export function Command({ of }: { of: string }) {
  return (
    <div class="command">
      <code>{cleanLines(of)}</code>
      <Copy text={of} />
    </div>
  );
}

export interface Tab {
  id: string;
  title: ComponentChildren;
}

// Tabs whose choice stands in the address.
export function Tabs({
  tabs,
  name = "tab",
  of,
  clear = [],
}: {
  tabs: Tab[];
  of: string;
  name?: string;
  clear?: string[];
}) {
  const choose = (id: string) => {
    const cleared = Object.fromEntries(clear.map((key) => [key, undefined]));
    setQuery({ ...cleared, [name]: id === tabs[0]!.id ? undefined : id }, true);
  };
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const at = tabs.findIndex((tab) => tab.id === of);
    const next = tabs[(at + step + tabs.length) % tabs.length]!;
    choose(next.id);
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" onKeyDown={move}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          data-tab={tab.id}
          aria-selected={tab.id === of}
          tabIndex={tab.id === of ? 0 : -1}
          onClick={() => choose(tab.id)}
        >
          {tab.title}
        </button>
      ))}
    </div>
  );
}

export function tabOf(tabs: Tab[], name = "tab"): string {
  const wanted = query.value.get(name);
  return tabs.some((tab) => tab.id === wanted) ? wanted! : tabs[0]!.id;
}

export function Field({
  label,
  hint,
  problem,
  children,
}: {
  label: ComponentChildren;
  hint?: ComponentChildren;
  problem?: string;
  children: (id: string) => ComponentChildren;
}) {
  const id = useId();
  return (
    <div class="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
      {problem ? (
        <p class="problem" role="alert">
          {problem}
        </p>
      ) : hint ? (
        <p class="hint">{hint}</p>
      ) : null}
    </div>
  );
}

// Waits for data: nothing for a moment, then a word; a refusal in its place.
export function Waiting({ on }: { on: Pick<Loaded<unknown>, "data" | "refusal"> }) {
  if (on.refusal) return <Refused refusal={on.refusal} />;
  return on.data === undefined ? (
    <p class="waiting" aria-busy="true">
      Loading …
    </p>
  ) : null;
}

// In place of a page whose subject cannot be shown: it is not there, or not the caller's to see.
export function Gone({
  of,
  refusal,
  command,
  children,
}: {
  of: string;
  refusal: Refusal;
  command?: string;
  children: ComponentChildren;
}) {
  if (refusal.reason.startsWith("NO_SUCH_")) {
    return (
      <Empty page title={capital(clean(refusal.message))} command={command}>
        {children}
      </Empty>
    );
  }
  return (
    <>
      <Head title={<bdi class="mono">{clean(of)}</bdi>} />
      <Refused refusal={refusal} />
    </>
  );
}

export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows
        .filter(([, value]) => value !== undefined && value !== null && value !== false && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

export function Panel({
  title,
  children,
  aside,
  class: style,
}: {
  title?: ComponentChildren;
  children: ComponentChildren;
  aside?: ComponentChildren;
  class?: string;
}) {
  return (
    <section class={`panel ${style ?? ""}`}>
      {(title || aside) && (
        <header>
          {title ? <h2>{title}</h2> : <span />}
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

// The head of a page.
export function Head({
  title,
  children,
  about,
}: {
  title: ComponentChildren;
  children?: ComponentChildren;
  about?: ComponentChildren;
}) {
  return (
    <header class="head">
      <div>
        <h1>{title}</h1>
        {about && <p class="about">{about}</p>}
      </div>
      {children && <div class="actions">{children}</div>}
    </header>
  );
}
