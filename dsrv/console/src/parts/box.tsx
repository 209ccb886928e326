// A box of a graph, and the line between two.
import { useMemo, useRef } from "preact/hooks";
import type { Box, Edge } from "../graph/model";
import { inner, outline } from "../graph/shapes";
import { clean, short } from "../text/clean";
import { count, plural, word } from "../text/words";
import { look, Mark } from "./text";

export interface Badge {
  state: string;
  text: string;
}
export interface Seen {
  badges?: Badge[]; // counts, or what a token does
  note?: string; // a line below
  tone?: string; // a state that colours it
  faint?: boolean; // not reached
}

const LETTER = 7.3;

export function widthOf(text: string): number {
  return text.length * LETTER;
}

export function titleOf(box: Box): string {
  return short(box.title ?? box.id, 26);
}

interface LineProps {
  edge: Edge;
  path: string;
  label?: { x: number; y: number };
  passed?: number;
  tone?: string;
}

// Counts come every second, and of 650 lines hardly one has changed: the others stay as they are.
export function EdgeLine(props: LineProps) {
  const { edge, path, label, passed, tone } = props;
  return useMemo(() => <Line {...props} />, [edge, path, label, passed, tone]);
}

function Line({ edge, path, label, passed, tone }: LineProps) {
  const style = ["edge", passed ? "passed" : passed === 0 ? "faint" : "", tone ?? ""].join(" ").trim();
  const shown = short(edge.label, 22);
  const whole = clean(edge.label);
  const text = `${shown}${passed && passed > 1 ? ` ×${count(passed)}` : ""}`;
  return (
    <g class={style}>
      <path d={path} marker-end="url(#tip)" />
      {label && (
        <text x={label.x} y={label.y + 4} text-anchor="middle">
          {whole !== shown && <title>{whole}</title>}
          {text}
        </text>
      )}
    </g>
  );
}

function subOf(box: Box, seen: Seen): string {
  return seen.note ? short(seen.note, 30) : box.members !== undefined ? plural(box.members, "step") : "";
}

// What it says to those who do not see it: first what stands on it, as it stands there.
function saidOf(box: Box, seen: Seen): string {
  const badges = seen.badges ?? [];
  const below = badges.length > 0 ? badges.map((badge) => badge.text).join(" ") : subOf(box, seen);
  const counted = badges.map((badge) =>
    badge.text.includes(word(badge.state)) ? "" : `${badge.text} ${word(badge.state)}`,
  );
  return [
    `${titleOf(box)} ${below}`.trim(),
    box.members === undefined ? word(box.kind) : "",
    ...counted,
    badges.length > 0 ? (seen.note ?? "") : "",
    seen.faint ? "not reached" : "",
  ]
    .filter((part) => part !== "")
    .join(", ");
}

interface ShapeProps {
  box: Box;
  place: { x: number; y: number; width: number; height: number };
  seen: Seen;
  chosen: boolean;
  choose?: (box: Box) => void;
}

// As the lines.
export function BoxShape(props: ShapeProps) {
  const { box, place, seen, chosen } = props;
  const latest = useRef(props.choose);
  latest.current = props.choose;
  const choose = props.choose && ((one: Box) => latest.current?.(one));
  return useMemo(
    () => <Shape {...props} choose={choose} />,
    [box, place, JSON.stringify(seen), chosen, !choose],
  );
}

function Shape({ box, place, seen, chosen, choose }: ShapeProps) {
  const second = inner(box, place);
  const style = [
    "box",
    `k-${box.kind}`,
    seen.tone ? `is-${look(seen.tone)} toned` : "",
    seen.faint ? "faint" : "",
    chosen ? "chosen" : "",
  ]
    .filter((part) => part !== "")
    .join(" ");
  const open = () => choose?.(box);
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    open();
  };
  const lower = seen.badges?.length || seen.note || box.members !== undefined;
  const below = subOf(box, seen);
  return (
    <g
      class={style}
      transform={`translate(${place.x} ${place.y})`}
      role={choose ? "button" : "img"}
      tabIndex={choose ? 0 : undefined}
      aria-label={saidOf(box, seen)}
      aria-pressed={choose ? chosen : undefined}
      onClick={open}
      onKeyDown={pressed}
    >
      <title>{saidOf(box, seen)}</title>
      <path class="outline" d={outline(box, place)} />
      {second && <path class="inner" d={second} />}
      <text class="title" y={lower ? -5 : 4} text-anchor="middle">
        {titleOf(box)}
      </text>{" "}
      {seen.badges?.length ? (
        <Badges badges={seen.badges} />
      ) : (
        below && (
          <text class="sub" y={13} text-anchor="middle">
            {below}
          </text>
        )
      )}
    </g>
  );
}

// In a row below the title, each with the mark of its state.
function Badges({ badges }: { badges: Badge[] }) {
  const widths = badges.map((badge) => 15 + widthOf(badge.text) * 0.92 + 6);
  const whole = widths.reduce((sum, width) => sum + width, 0);
  let x = -whole / 2;
  return (
    <g class="badges">
      {badges.map((badge, i) => {
        const left = x;
        x += widths[i]!;
        return (
          <g key={badge.state} class={`is-${look(badge.state)}`} transform={`translate(${left} 3)`}>
            <svg width="12" height="12" x="0" y="0">
              <Mark state={badge.state} />
            </svg>
            <text x="15" y="10">
              {badge.text}
            </text>{" "}
          </g>
        );
      })}
    </g>
  );
}
