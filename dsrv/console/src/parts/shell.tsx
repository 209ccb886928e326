// What is around all pages: the menu, the namespace, how live it is, who is signed in.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { now } from "../state/clock";
import { bind } from "../state/keys";
import { hidden, live, lost } from "../state/live";
import { go, href, namespace, parts, path, to } from "../state/route";
import { authOff, ended, session, signedIn } from "../state/session";
import { PAGES, type Page } from "../pages/pages";
import { clean } from "../text/clean";
import { ago, word } from "../text/words";
import { ActionDialog, notice } from "./act";
import { BulkDialog } from "./bulk";
import { GoTo, openGoTo } from "./goto";
import { Help, openHelp } from "./help";
import { SignInAgain } from "./signin";
import { StartDialog } from "./start";
import { Id } from "./text";

export function pageUrl(page: Page): string {
  if (page.everywhere) return `/${page.name}`;
  return page.name === "" ? to() : to(page.name);
}

function isHere(page: Page): boolean {
  const [first, , third] = parts.value;
  return page.everywhere ? first === page.name : first === "n" && (third ?? "") === page.name;
}

export function Shell({ children }: { children: ComponentChildren }) {
  const [menu, setMenu] = useState(false);
  useEffect(() => setMenu(false), [path.value]);
  useLayoutEffect(() => {
    const unbind = [
      bind(".", "live on and off", () => {
        live.value = !live.value;
      }),
      bind("?", "all keys", openHelp),
      bind("Ctrl-K", "go to anything", openGoTo),
      ...PAGES.filter((page) => page.key).map((page) =>
        bind(`g ${page.key}`, page.title, () => go(pageUrl(page))),
      ),
    ];
    return () => unbind.forEach((undo) => undo());
  }, []);
  return (
    <div class={`shell ${menu ? "menu-open" : ""}`}>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <aside class="side">
        <div class="brand">
          <a href={href(to())} aria-label="dfsmr">
            <Logo /> <span class="name">dfsmr</span>
          </a>
          <button
            type="button"
            class="icon menu"
            aria-expanded={menu}
            aria-label="Menu"
            onClick={() => setMenu(!menu)}
          >
            ☰
          </button>
        </div>
        <Menu />
      </aside>
      <div class="main">
        <TopBar />
        <main id="main" tabIndex={-1} class={lost.value || ended.value ? "stale" : ""}>
          {children}
        </main>
      </div>
      <ActionDialog />
      <BulkDialog />
      <StartDialog />
      <GoTo />
      <Help />
      {ended.value && <SignInAgain />}
      <div class="toast" role="status">
        {notice.value && <p>{notice.value.text}</p>}
      </div>
    </div>
  );
}

function Logo() {
  return (
    <svg viewBox="0 0 32 32" class="logo" aria-hidden="true">
      <path d="M10 10h8a4 4 0 0 1 4 4v3" />
      <circle cx="8" cy="10" r="4" class="dot" />
      <circle cx="22" cy="22" r="5" />
      <circle cx="22" cy="22" r="1.5" class="dot" />
    </svg>
  );
}

function Menu() {
  const groups = [...new Set(PAGES.map((page) => page.group))];
  return (
    <nav aria-label="Pages">
      {groups.map((group) => (
        <div key={group} class="group">
          {group && <h2>{group}</h2>}
          <ul>
            {PAGES.filter((page) => page.group === group).map((page) => (
              <li key={page.name}>
                <a href={href(pageUrl(page))} aria-current={isHere(page) ? "page" : undefined}>
                  <span>{page.title}</span>
                  {page.key && <kbd aria-hidden="true">g {page.key}</kbd>}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function TopBar() {
  return (
    <div class="top" role="banner">
      <a class="space" href={href("/namespaces")} title="Namespaces">
        <span class="quiet">namespace</span> <Id of={namespace.value} />
      </a>
      <button type="button" class="goto" onClick={openGoTo}>
        <span>
          Go to<span class="long"> anything</span>
        </span>
        <kbd>Ctrl-K</kbd>
      </button>
      <Live />
      <Who />
    </div>
  );
}

function Live() {
  const broken = lost.value;
  const on = live.value;
  const text = !on ? "Stopped" : broken ? "Lost" : hidden.value ? "Hidden" : "Live";
  const why = broken
    ? `${clean(broken.why)}. What is shown is from ${ago(broken.since, now.value)}.`
    : undefined;
  return (
    <>
      <button
        type="button"
        class={`live ${!on ? "off" : broken ? "lost" : "on"}`}
        aria-pressed={on}
        title={why ?? "Whether the page renews itself (.)"}
        onClick={() => {
          live.value = !on;
        }}
      >
        <span class="light" aria-hidden="true" />
        {text}
      </button>
      {on && broken && (
        <span class="lost-note" role="status">
          {why} Trying again.
        </span>
      )}
    </>
  );
}

function Who() {
  if (authOff.value)
    return (
      <a class="who" href={href("/settings")} title="This server asks nobody who they are">
        open server
      </a>
    );
  if (!signedIn.value)
    return (
      <a class="who" href={href("/signin")}>
        Sign in
      </a>
    );
  const own = session.value!;
  return (
    <a class="who" href={href("/settings")} title="Settings and signing out">
      {clean(own.name || own.id || "")} <span class="quiet">{word(own.role)}</span>
    </a>
  );
}
