// What pages ask for first. It is asked for while their code is on its way, and their first calls take it.
import { callAhead } from "../api/call";
import type { Change_KindJson, GetHistoryRequestJson, ListInstancesRequestJson } from "../api/types";
import { columnsOf, needsAll } from "../parts/instances";
import { namespace, query } from "../state/route";
import { watchAhead } from "../state/watch";
import { withTerm } from "../text/filter";

export const LISTED = 100; // instances of a page of the list
const RECORDS = 200; // of a page of the history
const PAGE = 1000; // of records, where all of them are needed

export function overviewTopic() {
  return { overview: { namespace: namespace.value } };
}

export function instancesAsked(pageToken: string): ListInstancesRequestJson {
  return {
    namespace: namespace.value,
    filter: query.value.get("q") ?? "",
    orderBy: query.value.get("order") ?? "-changed",
    brief: !needsAll(columnsOf(query.value.get("cols"))),
    dryRun: query.value.get("dry") === "1",
    pageSize: LISTED,
    pageToken,
  };
}

export function countsAsked(filter: string) {
  return { namespace: namespace.value, filter: withTerm(filter, "state", undefined), by: "STATE" as const };
}

export function machinesAsked(pageToken: string) {
  return { namespace: namespace.value, pageSize: 500, pageToken };
}

export function queuesTopic() {
  const machine = query.value.get("machine") ?? "";
  const queue = query.value.get("queue") ?? "";
  return { queues: { namespace: namespace.value, machine, queue, pageSize: 1000 } };
}

export function workersTopic() {
  return { workers: { namespace: namespace.value, pageSize: 1000 } };
}

export function agentsAsked(pageToken: string) {
  return { namespace: namespace.value, pageToken };
}

export function machineTopic(id: string) {
  return { machine: { namespace: namespace.value, id, version: Number(query.value.get("version") ?? 0) } };
}

export function movesTopic(id: string) {
  const kinds: Change_KindJson[] = ["TRANSITIONED"];
  return { changes: { namespace: namespace.value, machine: id, kinds } };
}

export function instanceTopic(id: string) {
  return { instance: { namespace: namespace.value, id } };
}

export function machineAsked(id: string | undefined) {
  return { namespace: namespace.value, id };
}

// A page of the tab "history", as the address says.
export function historyAsked(id: string, pageToken: string): GetHistoryRequestJson {
  const kind = (query.value.get("kind") ?? "") as Change_KindJson | "";
  return {
    namespace: namespace.value,
    id,
    newestFirst: query.value.get("from") !== "oldest",
    kinds: kind ? [kind] : [],
    node: query.value.get("node") || undefined,
    pageSize: RECORDS,
    pageToken,
  };
}

// Of all records, from the newest on.
export function recordsAsked(id: string, pageToken: string): GetHistoryRequestJson {
  return { namespace: namespace.value, id, pageSize: PAGE, pageToken, newestFirst: true };
}

const NEED_RECORDS = ["graph", "timeline"];

function askInstance(id: string): void {
  const tab = query.value.get("tab");
  if (tab === "history") void callAhead("RunnerService", "GetHistory", historyAsked(id, ""));
  watchAhead(instanceTopic(id), ({ instance }) => {
    if (!instance?.version) return;
    callAhead("RunnerService", "GetMachine", machineAsked(instance.machine)).then(
      ({ kind }) => {
        if (kind !== "plan" && NEED_RECORDS.includes(tab ?? "graph"))
          void callAhead("RunnerService", "GetHistory", recordsAsked(id, ""));
      },
      () => undefined,
    );
  });
}

const FIRST: Record<string, () => void> = {
  "": () => watchAhead(overviewTopic()),
  instances: () => {
    void callAhead("RunnerService", "ListInstances", instancesAsked(""));
    void callAhead("ViewService", "CountInstances", countsAsked(query.value.get("q") ?? ""));
  },
  machines: () => {
    void callAhead("RunnerService", "ListMachines", machinesAsked(""));
    void callAhead("ViewService", "GetOverview", overviewTopic().overview);
  },
  queues: () => watchAhead(queuesTopic()),
  workers: () => {
    watchAhead(workersTopic());
    void callAhead("AgentService", "ListAgents", agentsAsked(""));
  },
};

// Asks for what the page at this address shows first.
export function askAhead(parts: string[]): void {
  const [first, space, name = "", id] = parts;
  if (first !== "n" || !space) return;
  if (id === undefined) FIRST[name]?.();
  else if (name === "instances") askInstance(id);
  else if (name === "machines") {
    watchAhead(movesTopic(id));
    watchAhead(machineTopic(id));
  }
}
