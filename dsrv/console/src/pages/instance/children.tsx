// The instances that it started, a level at a time.
import { call } from "../../api/call";
import type { InstanceJson } from "../../api/types";
import { Empty, Panel, Waiting } from "../../parts/bits";
import { columnsOf } from "../../parts/instances";
import { List } from "../../parts/list";
import { Id, Link } from "../../parts/text";
import { usePages } from "../../state/pages";
import { namespace, query, setQuery, to } from "../../state/route";
import { term } from "../../text/filter";
import type { Shown } from "./index";

export function ChildrenTab({ followed }: Shown) {
  const open = (query.value.get("open") ?? "").split(",").filter((id) => id !== "");
  const path = [followed.instance.id!, ...open];
  return (
    <div class="stack">
      {path.map((id, depth) => (
        <Level
          key={id}
          parent={id}
          depth={depth}
          opened={path[depth + 1]}
          open={(child) => setQuery({ open: [...open.slice(0, depth), ...(child ? [child] : [])].join(",") })}
        />
      ))}
    </div>
  );
}

function Level({
  parent,
  depth,
  opened,
  open,
}: {
  parent: string;
  depth: number;
  opened?: string;
  open: (child?: string) => void;
}) {
  const size = 100;
  const list = usePages<InstanceJson>(
    async (pageToken, signal) => {
      const reply = await call(
        "RunnerService",
        "ListInstances",
        {
          namespace: namespace.value,
          filter: term("parent", parent),
          orderBy: "-changed",
          pageSize: size,
          pageToken,
        },
        signal,
      );
      return { rows: reply.instances ?? [], next: reply.nextPageToken };
    },
    [parent],
    { size },
  );
  const columns = [
    ...columnsOf("id,label,machine,state,where,changed,took,error"),
    {
      id: "below",
      keep: true,
      title: "Its own",
      narrow: true,
      cell: (one: InstanceJson) => (
        <button
          type="button"
          class="small"
          aria-expanded={one.id === opened}
          onClick={() => open(one.id === opened ? undefined : one.id)}
        >
          {one.id === opened ? "close" : "children"}
        </button>
      ),
    },
  ];
  return (
    <Panel
      class="flush"
      title={
        depth === 0 ? undefined : (
          <>
            Children of <Id of={parent} />
          </>
        )
      }
      aside={
        depth === 0 && (list.rows?.length ?? 0) > 0 ? (
          <Link to={to("instances", { q: term("parent", parent) })}>As a list</Link>
        ) : undefined
      }
    >
      <Waiting on={list} />
      {list.rows && (
        <List
          name={`Children of ${parent}`}
          rows={list.rows}
          columns={columns}
          rowKey={(one) => one.id!}
          link={(one) => to("instances", one.id!)}
          opened={opened}
          more={list.next ? list.more : undefined}
          empty={
            <Empty title="No children.">
              {depth === 0 ? "Steps that start instances and suspending reports make them." : undefined}
            </Empty>
          }
        />
      )}
    </Panel>
  );
}
