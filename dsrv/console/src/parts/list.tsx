// The one list: a table with keys j k x Enter, a selection, and windows of long ones.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { go } from "../state/route";
import { bind } from "../state/keys";
import { useFitting, type Fitting } from "./fit";
import { usePortions } from "./portions";
import { Link } from "./text";

export interface Column<T> extends Fitting {
  title: ComponentChildren;
  cell: (row: T) => ComponentChildren;
  number?: boolean;
}

interface Props<T> {
  rows: T[];
  columns: Column<T>[];
  rowKey: (row: T) => string;
  name: string; // what is listed, for those who do not see it
  link?: (row: T) => string | undefined; // where the first cell leads, and Enter
  open?: (row: T) => void; // in place of a link
  opened?: string; // the key of the row that is open
  selected?: ReadonlySet<string>;
  select?: (keys: Set<string>) => void;
  empty?: ComponentChildren;
  more?: () => void; // asks for the next page
  moreText?: ComponentChildren;
  tone?: (row: T) => string | undefined;
  whole?: boolean; // all columns, as they were chosen: it may be moved sideways
}

const ROW = 30; // pixels, as in app.css
const WINDOW = 120; // rows in the document of a list that is longer
const MARGIN = 40; // that may be more before it is cut down

// Rows of the first frame, while they are drawn for the first time: as many as are seen.
function firstRows(): number {
  return Math.max(20, Math.min(60, Math.ceil(innerHeight / ROW)));
}

export function List<T>(props: Props<T>) {
  const { rows, rowKey } = props;
  const host = useRef<HTMLDivElement>(null);
  const columns = useFitting(host, props.columns, rows, !!props.whole);
  const body = useRef<HTMLTableSectionElement>(null);
  const [at, setAt] = useState(-1);
  const first = useWindow(body, rows.length);
  const long = rows.length > WINDOW + MARGIN;
  const whole = long ? WINDOW : rows.length;
  const drawn = usePortions(whole, firstRows(), { unseen: true });
  const windowed = long || drawn < whole;
  const shown = windowed ? rows.slice(first, first + drawn) : rows;
  const select = (key: string) => {
    const keys = new Set(props.selected);
    if (!keys.delete(key)) keys.add(key);
    props.select?.(keys);
  };
  const move = (step: number) => {
    if (rows.length === 0) return;
    const next = Math.max(0, Math.min(rows.length - 1, at + step));
    setAt(next);
    const row = body.current?.querySelector<HTMLElement>(`tr[data-at="${next}"]`);
    if (row) return row.focus();
    const top = body.current!.getBoundingClientRect().top + scrollY;
    scrollTo(0, top + next * ROW - innerHeight / 2); // then its window is there
  };
  const selectHere = () => {
    const row = rows[at];
    if (row) select(rowKey(row));
  };
  useRowKeys({ move, select: props.select && selectHere });
  if (rows.length === 0 && props.empty) return <>{props.empty}</>;
  const all = props.select && rows.length > 0 && rows.every((row) => props.selected!.has(rowKey(row)));
  const width = columns.length + (props.select ? 1 : 0);
  return (
    <div class={props.whole ? "list whole" : "list"} ref={host}>
      <table aria-label={props.name} aria-rowcount={windowed ? rows.length : undefined}>
        <thead>
          <tr>
            {props.select && (
              <th class="check">
                <input
                  type="checkbox"
                  aria-label="Select all rows shown"
                  checked={!!all}
                  onChange={() => props.select!(all ? new Set() : new Set(rows.map(rowKey)))}
                />
              </th>
            )}
            {columns.map((column) => (
              <th key={column.id} data-column={column.id} scope="col" class={cellClass(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {windowed && first > 0 && <Space rows={first} width={width} />}
          {shown.map((row, i) => (
            <KeptRow
              key={rowKey(row)}
              row={row}
              at={windowed ? first + i : i}
              props={props}
              columns={columns}
              chosen={setAt}
              select={select}
            />
          ))}
          {windowed && first + drawn < rows.length && (
            <Space rows={rows.length - first - drawn} width={width} />
          )}
        </tbody>
      </table>
      {props.more && (
        <div class="more">
          <button type="button" onClick={props.more}>
            {props.moreText ?? "Show more"}
          </button>
        </div>
      )}
    </div>
  );
}

interface RowKeys {
  move: (step: number) => void;
  select?: () => void;
}

// Bound as long as the list is there: of several the keys are the last one's, whichever is drawn anew.
function useRowKeys(keys: RowKeys): void {
  const latest = useRef(keys);
  // Before the next key: one that follows at once finds the row of this render.
  useLayoutEffect(() => {
    latest.current = keys;
  });
  const selects = !!keys.select;
  useLayoutEffect(() => {
    const unbind = [
      bind("j", "next row", () => latest.current.move(1)),
      bind("k", "row before", () => latest.current.move(-1)),
    ];
    if (selects) unbind.push(bind("x", "select the row", () => latest.current.select?.()));
    return () => unbind.forEach((undo) => undo());
  }, [selects]);
}

function cellClass<T>(column: Column<T>): string {
  return `c-${column.id}${column.number ? " number" : ""}${column.grow ? " grow" : ""}${column.narrow ? "" : " wide-only"}`;
}

function Space({ rows, width }: { rows: number; width: number }) {
  return (
    <tr class="space" aria-hidden="true">
      <td colSpan={width} style={{ height: `${rows * ROW}px` }} />
    </tr>
  );
}

interface RowProps<T> {
  row: T;
  at: number;
  props: Props<T>;
  columns: Column<T>[];
  chosen: (at: number) => void;
  select: (key: string) => void;
}

// While the next rows are drawn for the first time, those before stay as they are.
function KeptRow<T>(all: RowProps<T>) {
  return useMemo(() => <Row {...all} />, [all.row, all.at, all.props, all.columns]);
}

function Row<T>({ row, at, props, columns, chosen, select }: RowProps<T>) {
  const key = props.rowKey(row);
  const link = props.link?.(row);
  const open = () => {
    if (props.open) props.open(row);
    else if (link) go(link);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.target === event.currentTarget && event.key === "Enter") open();
  };
  const style = [props.opened === key ? "open" : "", props.tone?.(row) ?? "", props.open ? "opens" : ""]
    .join(" ")
    .trim();
  return (
    <tr
      tabIndex={-1}
      data-at={at}
      data-key={key}
      class={style || undefined}
      aria-rowindex={at + 1}
      aria-selected={props.select ? props.selected!.has(key) : undefined}
      onFocus={() => chosen(at)}
      onKeyDown={pressed}
      onClick={
        props.open &&
        ((event) => {
          if (!(event.target instanceof Element && event.target.closest("a,button,input"))) open();
        })
      }
    >
      {props.select && (
        <td class="check">
          <input
            type="checkbox"
            aria-label={`Select ${key}`}
            checked={props.selected!.has(key)}
            onChange={() => select(key)}
          />
        </td>
      )}
      {columns.map((column, i) => (
        <td key={column.id} class={cellClass(column)}>
          {i > 0 ? (
            column.cell(row)
          ) : link ? (
            <Link to={link}>{column.cell(row)}</Link>
          ) : props.open ? (
            <button type="button" class="link" aria-expanded={props.opened === key} onClick={open}>
              {column.cell(row)}
            </button>
          ) : (
            column.cell(row)
          )}
        </td>
      ))}
    </tr>
  );
}

// The first row of the window, as the page is scrolled.
function useWindow(body: { current: HTMLElement | null }, length: number): number {
  const [first, setFirst] = useState(0);
  useEffect(() => {
    if (length <= WINDOW + MARGIN) return undefined;
    const place = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const seen = Math.floor(-top / ROW) - WINDOW / 3;
      const step = 20;
      setFirst(Math.max(0, Math.min(length - WINDOW, Math.floor(seen / step) * step)));
    };
    addEventListener("scroll", place, { passive: true });
    place();
    return () => removeEventListener("scroll", place);
  }, [length]);
  return Math.min(first, Math.max(0, length - 1));
}
