// Which page an address shows.
import type { ComponentType } from "preact";
import { clean } from "../text/clean";
import { AccessPage } from "./access";
import { BulksPage } from "./bulks";
import { DefinePage } from "./define";
import { FeedPage } from "./feed";
import { GroupsPage } from "./groups";
import { InstancePage } from "./instance";
import { InstancesPage } from "./instances";
import { LimitsPage } from "./limits";
import { MachinePage } from "./machine";
import { MachinesPage } from "./machines";
import { NamespacesPage } from "./namespaces";
import { OverviewPage } from "./overview";
import { PackagesPage } from "./packages";
import { QueuesPage } from "./queues";
import { SchedulesPage } from "./schedules";
import { SettingsPage } from "./settings";
import { TriggersPage } from "./triggers";
import { WorkersPage } from "./workers";

interface Shown { view: ComponentType; title: string; key: string }

const EVERYWHERE: Record<string, [ComponentType, string]> = {
  settings: [SettingsPage, "Settings"],
  access: [AccessPage, "Access"],
  namespaces: [NamespacesPage, "Namespaces"],
};
const IN_NAMESPACE: Record<string, [ComponentType, string]> = {
  "": [OverviewPage, "Overview"],
  instances: [InstancesPage, "Instances"],
  machines: [MachinesPage, "Machines"],
  define: [DefinePage, "Define"],
  queues: [QueuesPage, "Queues"],
  workers: [WorkersPage, "Workers"],
  bulks: [BulksPage, "Bulk changes"],
  feed: [FeedPage, "Feed"],
  schedules: [SchedulesPage, "Schedules"],
  triggers: [TriggersPage, "Triggers"],
  limits: [LimitsPage, "Limits"],
  groups: [GroupsPage, "Groups"],
  packages: [PackagesPage, "Packages"],
};
const ONE: Record<string, ComponentType> = {
  instances: InstancePage,
  machines: MachinePage,
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
