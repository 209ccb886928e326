// /access: tokens and sessions; secrets by their names.
import { call } from "../api/call";
import type {
  AccessToken_RoleJson,
  AccessTokenJson,
  CreateTokenResponseJson,
  SecretJson,
} from "../api/types";
import { Do, sent, type Action } from "../parts/act";
import { Command, Empty, Head, Panel, Tabs, tabOf } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { Id, None, Text, Time } from "../parts/text";
import { usePages } from "../state/pages";
import { namespace, query, setQuery } from "../state/route";
import { authOff, may, session } from "../state/session";
import { argument } from "../text/shell";
import { count, plural, word } from "../text/words";

const TABS = [
  { id: "tokens", title: "Tokens" },
  { id: "secrets", title: "Secrets" },
];

export function AccessPage() {
  const tab = tabOf(TABS);
  return (
    <>
      <Head title="Access" about="Who may do what." />
      <Tabs tabs={TABS} of={tab} clear={["name"]} />
      {tab === "tokens" ? <Tokens /> : <Secrets />}
    </>
  );
}

function Tokens() {
  if (authOff.value) {
    return (
      <Panel>
        <Empty
          title="This server asks nobody who they are."
          command="dsrv --auth tokens --admin-token-file admin.token"
        >
          Whoever reaches it may do everything, and there are no tokens. Start it so, and each caller needs
          one:
        </Empty>
      </Panel>
    );
  }
  if (!may("ADMIN"))
    return (
      <Panel>
        <Empty title="Tokens are an admin's.">
          You are signed in as {word(session.value?.role)}; listing and making tokens takes the role admin.
        </Empty>
      </Panel>
    );
  return <TokenList />;
}

const COLUMNS: Column<AccessTokenJson>[] = [
  { id: "token", title: "Token", narrow: true, cell: (one) => <Id of={one.id} /> },
  { id: "name", title: "For", narrow: true, cell: (one) => <Text of={one.name || "–"} most={50} /> },
  { id: "role", title: "Role", narrow: true, cell: (one) => word(one.role) },
  {
    id: "space",
    title: "Namespace",
    cell: (one) => (one.namespace === "*" ? "all" : <Id of={one.namespace} />),
  },
  {
    id: "machines",
    title: "Only",
    cell: (one) => (
      <Text
        of={
          [...(one.machines ?? []), ...(one.queues ?? []).map((queue) => `queue ${queue}`)].join(", ") || "–"
        }
        most={50}
      />
    ),
  },
  { id: "made", lesser: 2, title: "Made", cell: (one) => <Time of={one.createTime} /> },
  {
    id: "ends",
    lesser: 1,
    title: "Ends",
    cell: (one) => (one.expireTime ? <Time of={one.expireTime} /> : <None>never</None>),
  },
  {
    id: "parent",
    lesser: 3,
    title: "Session of",
    cell: (one) => (one.parent ? <Id of={one.parent} /> : <None />),
  },
  {
    id: "do",
    keep: true,
    title: "",
    narrow: true,
    cell: (one) => <Do class="small" label="Revoke" role="ADMIN" action={() => revoke(one)} />,
  },
];

function TokenList() {
  const sessions = query.value.get("sessions") === "1";
  const list = usePages<AccessTokenJson>(
    async (_, signal) => {
      const reply = await call("TokenService", "ListTokens", { sessions }, signal);
      return { rows: reply.tokens ?? [], next: undefined };
    },
    [sessions],
  );
  return (
    <ListPage
      bare
      title="Tokens"
      list={list}
      columns={COLUMNS}
      rowKey={(one) => one.id!}
      above={
        <div class="bar-row">
          <label class="inline">
            <input
              type="checkbox"
              checked={sessions}
              onChange={(event) => setQuery({ sessions: event.currentTarget.checked ? "1" : undefined })}
            />{" "}
            with sessions
          </label>
          <span class="spring" />
          <Do label="Create a token …" role="ADMIN" class="primary" action={create} />
        </div>
      }
      empty={
        <Empty title="No tokens yet." command="dcli token create --role operator --name ann">
          The admin file is in the server's flags; others are made here, or:
        </Empty>
      }
    />
  );
}

function words(text: string | undefined): string[] {
  return (text ?? "").split(/[\s,]+/).filter((one) => one !== "");
}

function create(): Action {
  return {
    title: "Create a token",
    verb: "Create",
    about: "Its secret is shown once, and kept nowhere but as a hash.",
    fields: [
      {
        name: "role",
        label: "Role",
        kind: "choice",
        value: "VIEWER",
        choices: [
          ["VIEWER", "viewer: reads"],
          ["WORKER", "worker: takes work, reports, starts"],
          ["OPERATOR", "operator: changes anything by hand"],
          ["ADMIN", "admin: and tokens"],
        ],
      },
      { name: "namespace", label: "Namespace", value: namespace.value, hint: "* is all of them." },
      { name: "name", label: "What it is for" },
      { name: "machines", label: "Of a worker: only these machines", hint: "Names; empty: all." },
      { name: "queues", label: "Of a worker: only these queues" },
      {
        name: "days",
        label: "Ends after so many days",
        kind: "number",
        hint: "Empty: never.",
        problem: (text) => (/^\d*$/.test(text) ? "" : "A whole number."),
      },
    ],
    send: ({ role, namespace: space, name, machines, queues, days }) =>
      sent("TokenService", "CreateToken", {
        role: role as AccessToken_RoleJson,
        namespace: space,
        name: name || undefined,
        ...(role === "WORKER" ? { machines: words(machines), queues: words(queues) } : {}),
        expireTime: days ? new Date(Date.now() + Number(days) * 86_400_000).toISOString() : undefined,
      }),
    dcli: ({ role, namespace: space, name, machines, queues, days }) => [
      "token",
      "create",
      "--role",
      word(role),
      "--namespace",
      space,
      ...(name ? ["--name", name] : []),
      ...words(machines).flatMap((one) => ["--machine", one]),
      ...words(queues).flatMap((one) => ["--queue", one]),
      ...(days ? ["--expires", `+${days}d`] : []),
    ],
    done: (reply: CreateTokenResponseJson) => (
      <div>
        <p>
          The token of <b>{reply.token?.id}</b>. It is not shown again:
        </p>
        <Command of={reply.secret ?? ""} />
      </div>
    ),
  };
}

function revoke(one: AccessTokenJson): Action {
  return {
    title: `Revoke ${one.id}`,
    verb: "Revoke",
    danger: true,
    about: (
      <>
        Nobody gets in with{" "}
        <b>
          <Text of={one.name || one.id} />
        </b>{" "}
        any more; what it has open ends, and its sessions with it.
      </>
    ),
    send: () => sent("TokenService", "RevokeToken", { id: one.id }),
    dcli: () => ["token", "revoke", argument(one.id)],
  };
}

const SECRETS: Column<SecretJson>[] = [
  { id: "secret", title: "Secret", narrow: true, cell: (one) => <Id of={one.name} /> },
  {
    id: "versions",
    title: "Versions",
    number: true,
    narrow: true,
    cell: (one) => count((one.versions ?? []).length),
  },
  {
    id: "newest",
    title: "Newest",
    cell: (one) => (one.versions?.[0] ? `v${one.versions[0].version}` : <None />),
  },
  { id: "made", title: "Made", cell: (one) => <Time of={one.versions?.[0]?.createTime} /> },
  { id: "by", title: "By", grow: true, cell: (one) => <Text of={one.versions?.[0]?.createdBy} /> },
];

function Secrets() {
  if (!may("OPERATOR"))
    return (
      <Panel>
        <Empty title="Names of secrets are an operator's.">
          You are signed in as {word(session.value?.role)}.
        </Empty>
      </Panel>
    );
  return <SecretList />;
}

function SecretList() {
  const list = usePages<SecretJson>(
    async (_, signal) => {
      const reply = await call("SecretService", "ListSecrets", { namespace: namespace.value }, signal);
      return { rows: reply.secrets ?? [], next: undefined };
    },
    [namespace.value],
    { again: 0 },
  );
  return (
    <ListPage
      bare
      title="Secrets"
      list={list}
      columns={SECRETS}
      rowKey={(one) => one.name!}
      above={
        <p class="quiet">
          Of the namespace {namespace.value}: {plural(list.rows?.length, "name")}. Values are never shown, and
          are put from a shell alone.
        </p>
      }
      empty={
        <Empty title="No secrets here." command="dcli secret put db < db.password">
          Workers of packages resolve them by name:
        </Empty>
      }
    />
  );
}
