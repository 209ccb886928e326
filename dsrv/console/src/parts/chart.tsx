// Small charts: bars of minutes, and a histogram.
import type { GetDurationsResponse_BucketJson, MinuteJson } from "../api/types";
import { count, duration, milliseconds, span } from "../text/words";

export interface Series {
  name: string;
  state: string;
  of: (minute: MinuteJson) => string | undefined;
}

// The last hour by minutes, series on top of each other.
export function Minutes({
  minutes,
  series,
  title,
}: {
  minutes: MinuteJson[];
  series: Series[];
  title: string;
}) {
  const sums = minutes.map((minute) => series.reduce((sum, one) => sum + Number(one.of(minute) ?? 0), 0));
  const most = Math.max(1, ...sums);
  const whole = sums.reduce((sum, value) => sum + value, 0);
  const width = 300;
  const height = 54;
  const wide = width / 60;
  return (
    <figure class="chart">
      <figcaption>
        <b>{title}</b>
        <span class="quiet">{count(whole)} in the last hour</span>
      </figcaption>
      <p class="of">
        {series.length > 1
          ? series.map((one) => (
              <span key={one.name} class={`is-${one.state}`}>
                <i class="swatch" />
                {one.name}
              </span>
            ))
          : whole > 0 && `at most ${count(most)} a minute`}
      </p>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${count(whole)} in the last hour`}
      >
        <path class="ground" d={`M0 ${height - 0.5}H${width}`} />
        {minutes.map((minute, i) => {
          let y = height;
          const x = width - (minutes.length - i) * wide;
          return (
            <g key={minute.time}>
              <title>{`${minute.time}: ${series.map((one) => `${count(one.of(minute))} ${one.name}`).join(", ")}`}</title>
              {series.map((one) => {
                const high = (Number(one.of(minute) ?? 0) / most) * (height - 3);
                y -= high;
                return (
                  high > 0 && (
                    <rect
                      key={one.name}
                      class={`is-${one.state}`}
                      x={x + 0.6}
                      y={y}
                      width={wide - 1.2}
                      height={Math.max(high, 1)}
                    />
                  )
                );
              })}
            </g>
          );
        })}
      </svg>
    </figure>
  );
}

// What attempts took, with the timeout in it.
export function Histogram({
  buckets,
  timeout,
  title,
}: {
  buckets: GetDurationsResponse_BucketJson[];
  timeout: string | undefined;
  title: string;
}) {
  const shown = buckets.filter((bucket) => Number(bucket.count ?? 0) > 0 || Number(bucket.timedOut ?? 0) > 0);
  if (shown.length === 0) return <p class="quiet">{title}: none in the window.</p>;
  const first = buckets.indexOf(shown[0]!);
  const last = buckets.indexOf(shown.at(-1)!);
  const range = buckets.slice(first, last + 1);
  const most = Math.max(...range.map((bucket) => Number(bucket.count ?? 0)));
  const width = 320;
  const wide = width / Math.max(range.length, 12);
  const limit = milliseconds(timeout);
  const at =
    limit === undefined ? -1 : range.findIndex((bucket) => (milliseconds(bucket.upTo) ?? 0) >= limit);
  return (
    <figure class="chart tall">
      <figcaption>
        <b>{title}</b>{" "}
        <span class="quiet">
          {duration(range[0]!.upTo)} to {duration(range.at(-1)!.upTo)}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} 96`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${range.map((bucket) => `up to ${duration(bucket.upTo)} ${count(bucket.count)}`).join(", ")}`}
      >
        <path class="ground" d={`M0 95.5H${width}`} />
        {range.map((bucket, i) => {
          const high = (Number(bucket.count ?? 0) / most) * 90;
          const late =
            Number(bucket.count ?? 0) > 0 ? (high * Number(bucket.timedOut ?? 0)) / Number(bucket.count) : 0;
          return (
            <g key={bucket.upTo}>
              <title>{`up to ${duration(bucket.upTo)}: ${count(bucket.count)}, ${count(bucket.timedOut)} timed out`}</title>
              <rect class="is-claimed" x={i * wide + 0.6} y={96 - high} width={wide - 1.2} height={high} />
              {late > 0 && (
                <rect class="is-error" x={i * wide + 0.6} y={96 - late} width={wide - 1.2} height={late} />
              )}
            </g>
          );
        })}
        {at >= 0 && (
          <path class="limit" d={`M${(at + 1) * wide} 0V96`}>
            <title>{`the timeout now: ${span(limit)}`}</title>
          </path>
        )}
      </svg>
      <p class="legend">
        <span class="is-claimed">
          <i class="swatch" />
          ended
        </span>
        <span class="is-error">
          <i class="swatch" />
          timed out
        </span>
        {limit !== undefined && (
          <span>
            <i class="swatch line" />
            timeout now, {span(limit)}
          </span>
        )}
      </p>
    </figure>
  );
}
