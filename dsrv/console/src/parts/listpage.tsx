// A page that is a list with one row opened beside it: the frame of most pages. The row stands in the
// address, as "name".
import type { ComponentChildren } from "preact";
import type { Paged } from "../state/pages";
import { query, setQuery } from "../state/route";
import { Head, Panel, Waiting } from "./bits";
import { List, type Column } from "./list";

interface Props<T> {
  title: string;
  list: Pick<Paged<T>, "rows" | "refusal" | "next" | "more" | "data" | "reload">;
  columns: Column<T>[];
  rowKey: (row: T) => string;
  empty: ComponentChildren;
  about?: ComponentChildren;
  actions?: ComponentChildren;
  above?: ComponentChildren;
  detail?: (row: T | undefined, key: string) => ComponentChildren;
  detailTitle?: (row: T | undefined, key: string) => ComponentChildren;
  link?: (row: T) => string | undefined;
  tone?: (row: T) => string | undefined;
  param?: string;
  bare?: boolean; // without a head: part of another page
}

export function ListPage<T>(props: Props<T>) {
  const { list, rowKey, param = "name" } = props;
  const key = query.value.get(param) ?? undefined;
  const close = () => setQuery({ [param]: undefined });
  const row = list.rows?.find((one) => rowKey(one) === key);
  const open = (one: T) => setQuery({ [param]: rowKey(one) === key ? undefined : rowKey(one) });
  return (
    <>
      {!props.bare && (
        <Head title={props.title} about={props.about}>
          {props.actions}
        </Head>
      )}
      {props.above}
      <Waiting on={list as never} />
      <div class={key !== undefined && props.detail ? "with-side" : ""}>
        {list.rows && (
          <Panel class="flush">
            <List
              name={props.title}
              rows={list.rows}
              columns={props.columns}
              rowKey={rowKey}
              empty={props.empty}
              {...(props.detail ? { open } : {})}
              {...(props.link ? { link: props.link } : {})}
              opened={key}
              tone={props.tone}
              more={list.next ? list.more : undefined}
            />
          </Panel>
        )}
        {key !== undefined && props.detail && (
          <Panel
            class="node-panel"
            title={props.detailTitle?.(row, key) ?? key}
            aside={
              <button type="button" class="icon" aria-label="Close" onClick={close}>
                ×
              </button>
            }
          >
            {props.detail(row, key)}
          </Panel>
        )}
      </div>
    </>
  );
}
