// /n/NAMESPACE/packages
import { useRef, useState } from "preact/hooks";
import { call } from "../api/call";
import type { ActivatePackageResponseJson, PackageVersionJson } from "../api/types";
import { Do, sent, tell, type Action } from "../parts/act";
import { Empty, Facts, Refused } from "../parts/bits";
import { ListPage } from "../parts/listpage";
import type { Column } from "../parts/list";
import { Id, Link, None, State, Text, Time } from "../parts/text";
import { useLoad } from "../state/load";
import { usePages } from "../state/pages";
import { namespace, query, setQuery, to } from "../state/route";
import { cleanLines } from "../text/clean";
import { term } from "../text/filter";
import { argument } from "../text/shell";
import { bytes, count, plural, word } from "../text/words";
import { Put, useDrop } from "./put";

const COLUMNS: Column<PackageVersionJson>[] = [
  { id: "package", title: "Package", narrow: true, cell: (one) => <Id of={one.package} /> },
  { id: "version", title: "Version", narrow: true, cell: (one) => <Text of={one.version} /> },
  {
    id: "state",
    title: "State",
    narrow: true,
    cell: (one) => <State of={one.state} note={one.state === "CANDIDATE" ? `${one.percent} %` : ""} />,
  },
  {
    id: "verdict",
    title: "Signatures",
    cell: (one) => <span class={one.verdict === "REVOKED" ? "late" : ""}>{word(one.verdict)}</span>,
  },
  {
    id: "live",
    title: "Running on it",
    number: true,
    cell: (one) =>
      Number(one.stats?.live ?? 0) > 0 ? (
        <Link
          to={to("instances", { q: `${term("package", `${one.package}@${one.version}`)} -state:stopped` })}
        >
          {count(one.stats!.live)}
        </Link>
      ) : (
        <None>0</None>
      ),
  },
  { id: "error", title: "Failed", number: true, cell: (one) => count(one.stats?.error) },
  { id: "size", lesser: 2, title: "Size", number: true, cell: (one) => bytes(one.size) },
  { id: "put", lesser: 2, title: "Put", cell: (one) => <Time of={one.putTime} /> },
  {
    id: "about",
    title: "About",
    grow: true,
    cell: (one) => (
      <span class={one.blocked ? "late" : ""}>
        <Text of={one.blocked || one.description} most={120} />
      </span>
    ),
  },
];

export function PackagesPage() {
  const name = query.value.get("name") ?? "";
  const [file, setFile] = useState<File | undefined>();
  const input = useRef<HTMLInputElement>(null);
  useDrop(setFile);
  const list = usePages<PackageVersionJson>(
    async (pageToken, signal) => {
      const reply = await call(
        "PackageService",
        "ListPackages",
        { namespace: namespace.value, pageToken },
        signal,
      );
      return { rows: reply.packages ?? [], next: reply.nextPageToken };
    },
    [namespace.value],
  );
  return (
    <>
      <ListPage
        title="Packages"
        list={list}
        columns={COLUMNS}
        rowKey={(one) => one.package!}
        detail={(_, key) => <OnePackage name={key} />}
        about="Of each package the active version, else the newest. An archive that is dropped on the page is put."
        actions={
          <Do
            label="Put an archive …"
            role="OPERATOR"
            class="primary"
            action={() => {
              input.current?.click();
            }}
          />
        }
        empty={
          <Empty title="No packages yet." command="dcli package push etl-1.0.0.tar.gz">
            A package is documents and the programs that serve them, in one archive. Drop one here, or:
          </Empty>
        }
      />
      <input
        ref={input}
        type="file"
        hidden
        aria-label="Archive of a package"
        onChange={(event) => {
          setFile(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
      {file && (
        <Put
          file={file}
          close={() => setFile(undefined)}
          done={() => {
            setFile(undefined);
            list.reload();
            if (name) setQuery({});
          }}
        />
      )}
    </>
  );
}

function told(reply: ActivatePackageResponseJson): void {
  const documents = (reply.documents ?? []).filter((one) => one.what !== "SAME");
  tell(reply.changed ? `Done: ${plural(documents.length, "document")} changed.` : "Nothing changed.");
}

function activate(one: PackageVersionJson): Action {
  return {
    title: `Activate ${one.package} ${one.version}`,
    verb: "Activate",
    about:
      "All its documents are defined in one commit; or it is put beside the active one, for a share of the starts.",
    fields: [
      {
        name: "percent",
        label: "Share of the starts, in percent",
        value: "100",
        hint: "100: wholly.",
        problem: (text) => (Number(text) > 0 && Number(text) <= 100 ? "" : "Above 0, up to 100."),
      },
      { name: "adopt", label: "Take over what was defined by hand", kind: "check" },
      { name: "note", label: "Note" },
    ],
    send: ({ percent, adopt, note }) =>
      sent("PackageService", "ActivatePackage", {
        namespace: namespace.value,
        package: one.package,
        version: one.version,
        percent: Number(percent) === 100 ? undefined : Number(percent),
        adopt: adopt === "true" || undefined,
        note: note || undefined,
      }),
    dcli: ({ percent, adopt, note }) => [
      "package",
      "activate",
      argument(`${one.package}@${one.version}`),
      ...(Number(percent) === 100 ? [] : ["--percent", percent]),
      adopt === "true" && "--adopt",
      ...(note ? ["--note", note] : []),
    ],
    done: told,
  };
}

function rollBack(name: string): Action {
  return {
    title: `Roll ${name} back`,
    verb: "Roll back",
    danger: true,
    about: "To the version that was active before.",
    fields: [{ name: "note", label: "Note" }],
    send: ({ note }) =>
      sent("PackageService", "ActivatePackage", {
        namespace: namespace.value,
        package: name,
        rollback: true,
        note: note || undefined,
      }),
    dcli: ({ note }) => ["package", "rollback", argument(name), ...(note ? ["--note", note] : [])],
    done: told,
  };
}

function OnePackage({ name }: { name: string }) {
  const versions = useLoad(
    (signal) => call("PackageService", "ListPackages", { namespace: namespace.value, package: name }, signal),
    [namespace.value, name],
    2000,
  );
  const rows = (versions.data?.packages ?? []).filter((one) => one.package === name);
  const shown = query.value.get("version") ?? rows[0]?.version ?? "";
  const one = useLoad(
    async (signal) =>
      shown
        ? call(
            "PackageService",
            "GetPackage",
            { namespace: namespace.value, package: name, version: shown, withActivations: true },
            signal,
          )
        : undefined,
    [namespace.value, name, shown],
  );
  return (
    <>
      <Refused refusal={versions.refusal} />
      <p class="actions">
        <Do class="small" label="Roll back" role="OPERATOR" action={() => rollBack(name)} />
      </p>
      <h3>Versions</h3>
      <ul class="plain">
        {rows.map((row) => (
          <li key={row.version} class="version">
            <button
              type="button"
              class="link"
              aria-pressed={row.version === shown}
              onClick={() => setQuery({ version: row.version })}
            >
              <Text of={row.version} />
            </button>{" "}
            <State of={row.state} />
            {row.state !== "ACTIVE" && (
              <Do class="small" label="Activate …" role="OPERATOR" action={() => activate(row)} />
            )}
          </li>
        ))}
      </ul>
      <Refused refusal={one.refusal} />
      {one.data && <Version of={one.data} />}
    </>
  );
}

function Version({ of }: { of: PackageVersionJson }) {
  const stats = of.stats ?? {};
  return (
    <>
      <h3>{of.version}</h3>
      <Facts
        rows={[
          ["Digest", of.digest && <Id of={of.digest} />],
          [
            "Put",
            of.putTime && (
              <>
                <Time of={of.putTime} /> by <Text of={of.putBy} />
              </>
            ),
          ],
          [
            "Runs on it",
            <Link
              to={to("instances", { q: term("package", `${of.package}@${of.version}`) })}
            >{`${count(stats.live)} running, ${count(stats.success)} success, ${count(stats.error)} failed`}</Link>,
          ],
          [
            "Signed by",
            (of.signatures ?? []).map((one) => (
              <div key={one.fingerprint}>
                <Text of={one.keyName || one.fingerprint} />
                {one.revoked ? ", revoked" : one.keyName ? "" : ", not trusted"}
              </div>
            )),
          ],
          [
            "Blocked",
            of.blocked && (
              <span class="late">
                <Text of={of.blocked} />
              </span>
            ),
          ],
        ]}
      />
      {(of.documents ?? []).length > 0 && (
        <>
          <h3>Documents</h3>
          <ul class="plain">
            {of.documents!.map((one) => (
              <li key={`${one.kind} ${one.id}`}>
                <span class="quiet">{one.kind}</span>{" "}
                {["machine", "plan", "action"].includes(one.kind ?? "") ? (
                  <Link to={to("machines", one.id!)}>
                    <Id of={one.id} />
                  </Link>
                ) : (
                  <Id of={one.id} />
                )}
                {one.version ? ` v${one.version}` : ""}
              </li>
            ))}
          </ul>
        </>
      )}
      {(of.activations ?? []).length > 0 && (
        <>
          <h3>Activations</h3>
          <ul class="plain">
            {of.activations!.slice(0, 20).map((one, i) => (
              <li key={i}>
                <Time of={one.time} /> <Text of={one.version || "none"} />
                {one.percent ? ` ${one.percent} %` : ""}
                {one.rollback ? ", rolled back" : ""}{" "}
                <span class="quiet">
                  <Text of={one.by} /> <Text of={one.note} />
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      <details>
        <summary>Manifest</summary>
        <pre class="code">{cleanLines(of.manifest ?? "")}</pre>
      </details>
    </>
  );
}
