// What attempts of a node took, and the timeout that was learned from it.
import { call } from "../api/call";
import type { MachineJson } from "../api/types";
import { Facts, Waiting } from "../parts/bits";
import { Histogram } from "../parts/chart";
import { Time } from "../parts/text";
import { useLoad } from "../state/load";
import { namespace } from "../state/route";
import { count, duration, percent } from "../text/words";

export function NodeDurations({ machine, node }: { machine: MachineJson; node: string }) {
  const loaded = useLoad(
    (signal) =>
      call(
        "ViewService",
        "GetDurations",
        { namespace: namespace.value, machine: machine.id, version: machine.version, node },
        signal,
      ),
    [machine.id, machine.version, node],
    5000,
  );
  const of = loaded.data;
  if (!of) return <Waiting on={loaded} />;
  return (
    <>
      <Histogram title="First attempts" buckets={of.first ?? []} timeout={of.timeoutNow} />
      {(of.retries ?? []).some((bucket) => Number(bucket.count ?? 0) > 0) && (
        <Histogram title="Retries" buckets={of.retries!} timeout={of.retryTimeoutNow} />
      )}
      <Facts
        rows={[
          ["Timeout", of.rule],
          ["p50 · p90", of.p50 && `${duration(of.p50)} · ${duration(of.p90)}`],
          ["p95 · p99", of.p95 && `${duration(of.p95)} · ${duration(of.p99)}`],
          ["Timed out", of.meant !== undefined && `${percent(of.seen)}, meant are ${percent(of.meant)}`],
          [
            "Samples",
            of.samples && (
              <>
                {count(of.samples)}
                {of.since && (
                  <>
                    {" "}
                    since <Time of={of.since} />
                  </>
                )}
              </>
            ),
          ],
        ]}
      />
    </>
  );
}
