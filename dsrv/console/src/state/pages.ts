// Lists that come in pages. The first page renews itself while the list is live; once more have been
// asked for it stands. Where a page is short because the search was long, it goes on by itself.
import { useEffect, useState } from "preact/hooks";
import { toRefusal, type Refusal } from "../api/refusal";
import { LIST_AGAIN, useLoad, type Early } from "./load";

export interface Page<T> {
  rows: T[];
  next: string | undefined;
  backTo?: string;
}
export interface Paged<T> {
  rows: T[] | undefined;
  refusal: Refusal | undefined;
  data: unknown;
  reload: () => void;
  next: string | undefined; // more to ask for
  backTo: string | undefined; // how far a search has come
  more: () => void;
}
// What a Watch topic says, as a list of one page.
export function watchedList<T>({
  data,
  gone,
}: {
  data: T[] | undefined;
  gone: Refusal | undefined;
}): Paged<T> {
  return {
    rows: data,
    data,
    refusal: gone,
    next: undefined,
    backTo: undefined,
    more: () => undefined,
    reload: () => undefined,
  };
}

type Ask<T> = (token: string, signal: AbortSignal) => Promise<Page<T>>;

const TIMES_BY_ITSELF = 3;

// A page of `size` rows where that takes not too long. What has been found on the way is told `early`,
// as if it were all: nobody can ask for more before the page is there.
export async function gather<T>(
  ask: Ask<T>,
  token: string,
  size: number,
  signal: AbortSignal,
  early?: Early<Page<T>>,
): Promise<Page<T>> {
  const page = await ask(token, signal);
  for (let i = 0; i < TIMES_BY_ITSELF && page.next && page.rows.length < size; ++i) {
    if (page.rows.length > 0) early?.({ rows: [...page.rows], next: undefined });
    const further = await ask(page.next, signal);
    page.rows.push(...further.rows);
    page.next = further.next;
    page.backTo = further.backTo;
  }
  return page;
}

export function usePages<T>(
  ask: Ask<T>,
  on: unknown[],
  options: { size?: number; again?: number } = {},
): Paged<T> {
  const size = options.size ?? 0;
  const [later, setLater] = useState<(Page<T> & { refusal?: Refusal }) | undefined>();
  const key = JSON.stringify(on);
  useEffect(() => setLater(undefined), [key]);
  const first = useLoad<Page<T>>(
    (signal, early) => gather(ask, "", size, signal, early),
    on,
    later ? 0 : (options.again ?? LIST_AGAIN),
  );
  const last = later ?? first.data;
  const more = () => {
    if (!last?.next) return;
    gather(ask, last.next, size, new AbortController().signal).then(
      (page) => setLater({ ...page, rows: [...(later?.rows ?? []), ...page.rows] }),
      (error) => setLater({ ...last, rows: later?.rows ?? [], refusal: toRefusal(error) }),
    );
  };
  return {
    rows: first.data && (later ? [...first.data.rows, ...later.rows] : first.data.rows),
    refusal: later?.refusal ?? first.refusal,
    data: first.data,
    reload: first.reload,
    next: last?.next || undefined,
    backTo: last?.backTo,
    more,
  };
}
