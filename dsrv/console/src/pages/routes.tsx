// Which page an address shows. Overview and instances are there at once, the others when they are opened.
import "shared";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asset } from "../api/base";
import { Refused } from "../parts/bits";
import { Refusal } from "../api/refusal";
import { clean } from "../text/clean";
import { InstancesPage } from "./instances";
import type * as More from "./more";
import { OverviewPage } from "./overview";
import { SettingsPage } from "./settings";

let loading: Promise<typeof More> | undefined;
let loaded: typeof More | undefined;

function load(): Promise<typeof More> {
  loading ??= import(asset("more.js"));
  loading.then(
    (pages) => {
      loaded = pages;
    },
    () => {
      loading = undefined;
    },
  );
  return loading;
}

const LATER = new Set<ComponentType>();

function later(name: keyof typeof More): ComponentType {
  LATER.add(Later);
  return Later;
  function Later() {
    const [pages, setPages] = useState(loaded);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (!pages) void load().then(setPages, () => setFailed(true));
    }, []);
    if (failed)
      return (
        <Refused
          refusal={new Refusal("unreached", "", "The page could not be loaded. Is the server there?")}
        />
      );
    const Page = pages?.[name];
    return Page ? (
      <Page />
    ) : (
      <p class="waiting" aria-busy="true">
        Loading …
      </p>
    );
  }
}

// Loads what the page at this address needs besides, while it is asked who is signed in. Ends when it is
// there, or cannot be had.
export async function loadAhead(parts: string[]): Promise<void> {
  const page = pageAt(parts);
  if (page && LATER.has(page.view)) await load().catch(() => undefined);
}

interface Shown {
  view: ComponentType;
  title: string;
  key: string;
}

const EVERYWHERE: Record<string, [ComponentType, string]> = {
  settings: [SettingsPage, "Settings"],
  access: [later("AccessPage"), "Access"],
  namespaces: [later("NamespacesPage"), "Namespaces"],
};
const IN_NAMESPACE: Record<string, [ComponentType, string]> = {
  "": [OverviewPage, "Overview"],
  instances: [InstancesPage, "Instances"],
  machines: [later("MachinesPage"), "Machines"],
  define: [later("DefinePage"), "Define"],
  queues: [later("QueuesPage"), "Queues"],
  workers: [later("WorkersPage"), "Workers"],
  bulks: [later("BulksPage"), "Bulk changes"],
  feed: [later("FeedPage"), "Feed"],
  schedules: [later("SchedulesPage"), "Schedules"],
  triggers: [later("TriggersPage"), "Triggers"],
  limits: [later("LimitsPage"), "Limits"],
  groups: [later("GroupsPage"), "Groups"],
  packages: [later("PackagesPage"), "Packages"],
};
const ONE: Record<string, ComponentType> = {
  instances: later("InstancePage"),
  machines: later("MachinePage"),
};

export function pageAt(parts: string[]): Shown | undefined {
  const [first, space, name = "", id, more] = parts;
  if (first !== "n") {
    const page = parts.length === 1 ? EVERYWHERE[first ?? ""] : undefined;
    return page && { view: page[0], title: page[1], key: first! };
  }
  if (!space || more !== undefined) return undefined;
  if (id !== undefined) {
    const view = ONE[name];
    return view && { view, title: clean(id), key: `${space}/${name}/${id}` };
  }
  const page = IN_NAMESPACE[name];
  return page && { view: page[0], title: page[1], key: `${space}/${name}` };
}
