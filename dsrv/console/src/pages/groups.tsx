// /n/NAMESPACE/groups
import { call } from "../api/call";
import type { ControlGroupRequest_ActionJson, GroupJson } from "../api/types";
import { Do, sent, type Action } from "../parts/act";
import { Empty, Facts, Refused } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { Id, Link, None, Progress, StateOf, Text, Time } from "../parts/text";
import { useLoad } from "../state/load";
import { usePages } from "../state/pages";
import { namespace, to } from "../state/route";
import { term } from "../text/filter";
import { argument } from "../text/shell";
import { capital, count, word } from "../text/words";

const COLUMNS: Column<GroupJson>[] = [
  { id: "group", title: "Group", narrow: true, cell: (group) => <Id of={group.name} /> },
  {
    id: "state",
    title: "State",
    narrow: true,
    cell: (group) => <StateOf state={group.paused ? "PAUSED" : group.state} result={group.result} />,
  },
  {
    id: "progress",
    title: "Progress",
    narrow: true,
    cell: (group) => <Progress share={Number(group.progress ?? 0)} />,
  },
  { id: "total", title: "Members", number: true, cell: (group) => count(group.total) },
  {
    id: "running",
    title: "Running",
    number: true,
    cell: (group) =>
      `${count(group.running)}${group.maxRunning !== undefined ? ` of ${count(group.maxRunning)}` : ""}`,
  },
  {
    id: "scheduled",
    lesser: 2,
    title: "Scheduled",
    number: true,
    cell: (group) => count(Number(group.scheduled ?? 0) + Number(group.toCome ?? 0)),
  },
  { id: "success", lesser: 2, title: "Success", number: true, cell: (group) => count(group.success) },
  {
    id: "failed",
    title: "Failed",
    number: true,
    cell: (group) =>
      Number(group.failed ?? group.error ?? 0) > 0 ? (
        <span class="late">{count(group.failed ?? group.error)}</span>
      ) : (
        <None>0</None>
      ),
  },
  { id: "made", lesser: 3, title: "Made", cell: (group) => <Time of={group.createTime} /> },
  { id: "note", title: "Note", grow: true, cell: (group) => <Text of={group.note} most={100} /> },
];

export function GroupsPage() {
  const list = usePages<GroupJson>(
    async (pageToken, signal) => {
      const reply = await call(
        "ScheduleService",
        "ListGroups",
        { namespace: namespace.value, pageToken },
        signal,
      );
      return { rows: reply.groups ?? [], next: reply.nextPageToken };
    },
    [namespace.value],
  );
  return (
    <ListPage
      title="Groups"
      list={list}
      columns={COLUMNS}
      rowKey={(group) => group.name!}
      detail={(_, name) => <OneGroup name={name} />}
      empty={
        <Empty title="No groups yet." command="dcli start MACHINE key=value --group NAME">
          The first member makes its group:
        </Empty>
      }
    />
  );
}

const ABOUT: Record<string, string> = {
  PAUSE: "None that waits begins; the rest goes on.",
  RESUME: "What waits begins as there is room.",
  CANCEL: "All members, as Cancel does; those to come never are.",
  FORCE: "All members at once, without waiting for workers.",
  KILL: "All members at once; agents kill what they run of them.",
};

function control(group: GroupJson, action: ControlGroupRequest_ActionJson): Action {
  const both = action === "PAUSE" || action === "RESUME";
  return {
    title: `${capital(word(action))} ${group.name}`,
    verb: capital(word(action)),
    danger: !both,
    about: ABOUT[action],
    fields: [
      ...(both
        ? [
            {
              name: "members",
              label: action === "PAUSE" ? "Also pause those that run" : "Also resume those that are paused",
              kind: "check" as const,
            },
          ]
        : []),
      { name: "note", label: "Note" },
    ],
    send: ({ members, note }) =>
      sent("ScheduleService", "ControlGroup", {
        namespace: namespace.value,
        name: group.name,
        action,
        members: members === "true" || undefined,
        note: note || undefined,
      }),
    dcli: ({ members, note }) => [
      "groups",
      both ? word(action) : "cancel",
      argument(group.name),
      action === "FORCE" && "--force",
      action === "KILL" && "--kill",
      members === "true" && "--members",
      ...(note ? ["--note", note] : []),
    ],
  };
}

function setting(group: GroupJson): Action {
  const number = (text: string) => (/^\d*$/.test(text) ? "" : "A whole number.");
  return {
    title: `Set ${group.name}`,
    verb: "Set",
    fields: [
      {
        name: "max",
        label: "Running at most",
        value: group.maxRunning === undefined ? "" : String(group.maxRunning),
        hint: "Empty: no limit.",
        problem: number,
      },
      {
        name: "stop",
        label: "Pauses after so many failures",
        value: group.stopOnFail ? String(group.stopOnFail) : "",
        hint: "Empty: never.",
        problem: number,
      },
    ],
    send: ({ max, stop }) =>
      sent("ScheduleService", "SetGroup", {
        namespace: namespace.value,
        name: group.name,
        ...(max ? { maxRunning: Number(max) } : { noMaxRunning: true }),
        stopOnFail: Number(stop || 0),
      }),
    dcli: ({ max, stop }) => [
      "groups",
      "set",
      argument(group.name),
      "--max-running",
      max || "none",
      "--stop-on-fail",
      stop || "0",
    ],
  };
}

function OneGroup({ name }: { name: string }) {
  const loaded = useLoad(
    (signal) => call("ScheduleService", "GetGroup", { namespace: namespace.value, name }, signal),
    [namespace.value, name],
    2000,
  );
  const group = loaded.data;
  if (!group || group.name !== name) return <Refused refusal={loaded.refusal} />;
  const button = (action: ControlGroupRequest_ActionJson, label: string) => (
    <Do class="small" label={label} role="OPERATOR" action={() => control(group, action)} />
  );
  return (
    <>
      <p class="actions">
        {group.paused ? button("RESUME", "Resume") : button("PAUSE", "Pause")}
        <Do class="small" label="Set …" role="OPERATOR" action={() => setting(group)} />
        {group.state !== "STOPPED" && (
          <>
            {button("CANCEL", "Cancel")}
            {button("FORCE", "Cancel at once")}
            {button("KILL", "Kill")}
          </>
        )}
      </p>
      <p>
        <Link to={to("instances", { q: term("group", name) })}>{count(group.total)} members</Link>
      </p>
      <Facts
        rows={[
          ["State", <StateOf state={group.state} result={group.result} />],
          ["Running", count(group.running)],
          ["Scheduled", count(group.scheduled)],
          ["To come", group.toCome && count(group.toCome)],
          ["Paused", group.pausedMembers && count(group.pausedMembers)],
          ["Success", count(group.success)],
          ["Warning", group.warning && count(group.warning)],
          ["Error", group.error && count(group.error)],
          ["Cancelled", group.cancelled && count(group.cancelled)],
          ["Aborted", group.aborted && count(group.aborted)],
          ["Pauses after", group.stopOnFail && `${count(group.stopOnFail)} failures`],
          [
            "Of",
            group.schedule && (
              <Link to={to("schedules", { name: group.schedule })}>
                <Id of={group.schedule} />
              </Link>
            ),
          ],
          ["Note", group.note && <Text of={group.note} />],
          ["Made", <Time of={group.createTime} />],
          ["Ended", group.endTime && <Time of={group.endTime} />],
        ]}
      />
    </>
  );
}
