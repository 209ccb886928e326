// Outlines of boxes by their kind, as dcli graph has them, and the lines between them.
import type { Box } from "./model";
import type { Line, Place } from "./places";

// The outline around (0, 0).
export function outline(box: Box, { width, height }: Place): string {
  const w = width / 2;
  const h = height / 2;
  const slant = 12;
  if (box.kind === "delay")
    return `M${-w + slant} ${-h}H${w - slant}L${w} 0L${w - slant} ${h}H${-w + slant}L${-w} 0Z`;
  if (box.kind === "manual") return `M${-w + slant} ${-h}H${w}L${w - slant} ${h}H${-w}Z`;
  if (box.kind === "held") return `M${-w} ${-h}H${w - slant}L${w} ${h}H${-w + slant}Z`;
  if (box.kind === "gate") return `M0 ${-h}L${w} 0L0 ${h}L${-w} 0Z`;
  const round = box.start || box.final ? Math.min(h, 18) : 6;
  return rounded(w, h, round);
}

function rounded(w: number, h: number, r: number): string {
  return (
    `M${-w + r} ${-h}H${w - r}A${r} ${r} 0 0 1 ${w} ${-h + r}V${h - r}A${r} ${r} 0 0 1 ${w - r} ${h}` +
    `H${-w + r}A${r} ${r} 0 0 1 ${-w} ${h - r}V${-h + r}A${r} ${r} 0 0 1 ${-w + r} ${-h}Z`
  );
}

// A second outline inside of the first: of finals, of steps that start instances, of groups.
export function inner(box: Box, place: Place): string | undefined {
  if (!box.final && box.kind !== "spawn" && box.kind !== "group") return undefined;
  return outline(box, { ...place, width: place.width - 7, height: place.height - 7 });
}

function at(value: number): string {
  return String(Math.round(value * 10) / 10);
}

// A smooth line through the points.
export function curve({ points }: Line): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${at(first.x)} ${at(first.y)}`;
  for (let i = 0; i < rest.length - 1; ++i) {
    const here = rest[i]!;
    const next = rest[i + 1]!;
    const end = i === rest.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${at(here.x)} ${at(here.y)} ${at(end.x)} ${at(end.y)}`;
  }
  if (rest.length === 1) path += `L${at(rest[0]!.x)} ${at(rest[0]!.y)}`;
  return path;
}
