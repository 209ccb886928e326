// Which columns of a list there is room for: the lesser ones go first, and none is cut off at the side.
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";

export interface Fitting {
  id: string;
  narrow?: boolean; // shown on small screens, too
  grow?: boolean;
  keep?: boolean; // never left out: what is done with the row
  lesser?: number; // the greater, the earlier it is left out
}

function rankOf(column: Fitting, at: number): number {
  if (at === 0 || column.keep) return -1;
  return column.narrow ? 0 : (column.lesser ?? (column.grow ? 0.5 : 1));
}

// The columns to be left out so that `over` pixels are gained, of those with these widths.
export function leftOut(columns: Fitting[], widths: Map<string, number>, over: number): string[] {
  const order = columns
    .map(({ id }, at) => ({ id, at, rank: rankOf(columns[at]!, at), width: widths.get(id) ?? 0 }))
    .filter(({ rank, width }) => rank >= 0 && width > 0)
    .sort((a, b) => b.rank - a.rank || b.at - a.at);
  const found: string[] = [];
  for (const { id, width } of order) {
    if (over <= 0) break;
    found.push(id);
    over -= width;
  }
  return found;
}

const NONE: string[] = [];
const GROWN = 40; // pixels more, from which on all are tried again: more than a scroll bar takes

// What is left out stays so until the list is wider, or shows others: nothing flickers as counts change.
export function useFitting<T extends Fitting>(
  host: { current: HTMLElement | null },
  columns: T[],
  rows: unknown[],
  whole: boolean, // leave nothing out
): T[] {
  const key = columns.map((column) => column.id).join();
  const [out, setOut] = useState<{ key: string; width: number; ids: string[] }>({ key, width: 0, ids: [] });
  // How often there was too little room after a change of size: times grow as they go on in their cells.
  const [grown, setGrown] = useState(0);
  const ids = out.key === key ? out.ids : NONE;
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      const now = host.current?.clientWidth ?? 0;
      if ((host.current?.scrollWidth ?? 0) > now) setGrown((times) => times + 1);
      setOut((before) =>
        before.ids.length > 0 && now > before.width + GROWN ? { key, width: now, ids: [] } : before,
      );
    });
    const table = host.current?.querySelector("table");
    if (host.current) observer.observe(host.current);
    if (table) observer.observe(table);
    return () => observer.disconnect();
  }, [key, rows.length > 0]);
  useLayoutEffect(() => {
    const box = whole ? null : host.current;
    const over = box ? box.scrollWidth - box.clientWidth : 0;
    if (!box || over <= 0) return;
    const heads = [...box.querySelectorAll<HTMLElement>("th[data-column]")];
    const widths = new Map(heads.map((head) => [head.dataset["column"]!, head.offsetWidth]));
    const more = leftOut(columns, widths, over);
    if (more.length > 0) setOut({ key, width: box.clientWidth, ids: [...ids, ...more] });
  }, [key, out, grown, rows, whole]);
  // The same array as long as they are the same.
  return useMemo(
    () => (whole ? columns : columns.filter((column) => !ids.includes(column.id))),
    [columns, ids, whole],
  );
}
