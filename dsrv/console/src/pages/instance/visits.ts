// "[" and "]": from visit to visit of an instance, in the order of time.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ChangeJson } from "../../api/types";
import { bind } from "../../state/keys";

// The place of the record with which the visit before (or after) that of `at` begins; with nothing open (-1) the
// last one, or the first. Records are in the order of time.
export function visitFrom(records: ChangeJson[], at: number, later: boolean): number | undefined {
  const step = later ? 1 : -1;
  const open = records[at];
  for (let i = open ? at + step : later ? 0 : records.length - 1; i >= 0 && i < records.length; i += step) {
    if (records[i]!.visit && records[i]!.visit !== open?.visit) return i;
  }
  return undefined;
}

export function useVisits(
  records: ChangeJson[],
  opened: (change: ChangeJson) => boolean,
  open: (change: ChangeJson) => void,
): void {
  const last = useRef<string | undefined>(undefined); // which of several visits of a node is open
  useLayoutEffect(() => {
    const placeOf = (is: (change: ChangeJson) => boolean) => records.map(is).lastIndexOf(true);
    const move = (later: boolean) => {
      const kept = placeOf((change) => change.seq === last.current && opened(change));
      const next = visitFrom(records, kept >= 0 ? kept : placeOf(opened), later);
      if (next === undefined) return;
      last.current = records[next]!.seq;
      open(records[next]!);
    };
    const unbind = [bind("[", "visit before", () => move(false)), bind("]", "visit after", () => move(true))];
    return () => unbind.forEach((undo) => undo());
  });
}
