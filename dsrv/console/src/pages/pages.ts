// All pages: where each is, what it is called, which key goes there.
export interface Page {
  name: string;
  title: string;
  key?: string;
  everywhere?: boolean;
  group: string;
}

export const PAGES: Page[] = [
  { name: "", title: "Overview", key: "o", group: "" },
  { name: "instances", title: "Instances", key: "i", group: "" },
  { name: "machines", title: "Machines", key: "m", group: "" },
  { name: "queues", title: "Queues", key: "q", group: "Work" },
  { name: "workers", title: "Workers", key: "w", group: "Work" },
  { name: "bulks", title: "Bulk changes", group: "Work" },
  { name: "feed", title: "Feed", key: "f", group: "Work" },
  { name: "schedules", title: "Schedules", key: "s", group: "Starts" },
  { name: "triggers", title: "Triggers", group: "Starts" },
  { name: "limits", title: "Limits", group: "Starts" },
  { name: "groups", title: "Groups", group: "Starts" },
  { name: "packages", title: "Packages", key: "p", group: "Define" },
  { name: "define", title: "Define", group: "Define" },
  { name: "namespaces", title: "Namespaces", everywhere: true, group: "Server" },
  { name: "access", title: "Access", everywhere: true, group: "Server" },
  { name: "settings", title: "Settings", everywhere: true, group: "Server" },
];
