// The one graph: boxes that open, counts and tokens on them, dots that move. Its places depend on what it
// consists of alone, so that they and the zoom stay when counts change.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { layout } from "../graph/layout";
import type { Box, Edge, Graph } from "../graph/model";
import type { Places, ToPlace } from "../graph/places";
import { curve, inner, outline } from "../graph/shapes";
import { clean, short } from "../text/clean";
import { count, plural, word } from "../text/words";
import { look, Mark } from "./text";

export interface Badge { state: string; text: string }
export interface Seen {
  badges?: Badge[];        // counts, or what a token does
  note?: string;           // a line below
  tone?: string;           // a state that colours it
  faint?: boolean;         // not reached
}
export interface Move { id: string; from: string; to: string }

interface Props {
  graph: Graph;
  name: string;
  seen?: (box: Box) => Seen;
  passed?: (edge: Edge) => number | undefined;   // how often; undefined: not told
  edgeTone?: (edge: Edge) => string | undefined;
  chosen?: string;
  choose?: (box: Box) => void;
  moves?: Move[];
}

const LETTER = 7.3;
const LINE = 17;
const BUSY = 20;    // dots on an edge, from which on it is drawn thicker instead
const TOOLS = 32;   // pixels of the buttons below

function widthOf(text: string): number {
  return text.length * LETTER;
}

function toPlace(graph: Graph, lines: number, down: boolean): ToPlace {
  return {
    down,
    boxes: graph.boxes.map((box) => {
      const width = Math.min(230, Math.max(box.kind === "group" ? 180 : 110, widthOf(titleOf(box)) + 34)) * (box.kind === "gate" ? 1.3 : 1);
      return { id: box.id, width, height: 14 + LINE * lines + (box.kind === "gate" ? 14 : 0) };
    }),
    edges: graph.edges.map(({ from, to, label }) => ({ from, to, width: label ? Math.min(150, widthOf(short(label, 22)) * 0.86) : 0 })),
  };
}

function titleOf(box: Box): string {
  return short(box.title ?? box.id, 26);
}

const NARROW = 620;

function usePlaces(graph: Graph, lines: number, host: { current: HTMLElement | null }): { places?: Places; error?: string } {
  const [state, setState] = useState<{ of: string; places?: Places; error?: string }>({ of: "" });
  const key = useMemo(() => JSON.stringify([graph, lines]), [graph, lines]);
  useEffect(() => {
    let stale = false;
    const down = (host.current?.clientWidth ?? innerWidth) < NARROW;
    layout(toPlace(graph, lines, down)).then(
      (places) => { if (!stale) setState({ of: key, places }); },
      (error) => { if (!stale) setState({ of: key, error: String(error) }); });
    return () => { stale = true; };
  }, [key]);
  return state.of === key ? state : {};
}

export function GraphView(props: Props) {
  const { graph } = props;
  const looks = new Map(graph.boxes.map((box) => [box.id, props.seen?.(box) ?? {}]));
  const host = useRef<HTMLDivElement>(null);
  const { places, error } = usePlaces(graph, props.seen ? 2 : 1, host);
  return <div class="graph" ref={host}>
    {error ? <p class="notice warn">The graph could not be laid out: {error}</p>
      : places ? <Drawing {...props} places={places} looks={looks} />
      : <p class="waiting" aria-busy="true">Laying out {plural(graph.boxes.length, "box", "boxes")} …</p>}
  </div>;
}

interface View { x: number; y: number; scale: number }

function scaleOf(places: Places, width: number): number {
  return Math.min(1, width / places.width, Math.max((innerHeight * 0.6) / places.height, 0.3));
}

function fit(places: Places, width: number, height: number): View {
  const scale = scaleOf(places, width);
  return { scale, x: Math.max(0, (width - places.width * scale) / 2), y: Math.max(0, (height - places.height * scale) / 2) };
}

function Drawing({ places, looks, ...props }: Props & { places: Places; looks: Map<string, Seen> }) {
  const { graph } = props;
  const svg = useRef<SVGSVGElement>(null);
  const { moved, zoom, reset, height } = useView(svg, places);
  const paths = useMemo(() => places.edges.map(curve), [places]);
  return <>
    <svg ref={svg} height={height} role="group" aria-label={props.name} tabIndex={0} class="drawing">
      <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
        <path d="M0 .5L7.5 4L0 7.5z" /></marker></defs>
      <g ref={moved}>
        {graph.edges.map((edge, i) => <EdgeLine key={`${edge.from} ${edge.to}`} edge={edge} path={paths[i]!}
          label={places.edges[i]?.label} passed={props.passed?.(edge)} tone={props.edgeTone?.(edge)} />)}
        {graph.boxes.map((box) => places.boxes[box.id] && <BoxShape key={box.id} box={box} place={places.boxes[box.id]!} seen={looks.get(box.id) ?? {}}
          chosen={props.chosen === box.id} choose={props.choose} />)}
        <Dots moves={props.moves ?? []} edges={graph.edges} paths={paths} />
      </g>
    </svg>
    <div class="zoom" role="group" aria-label="Zoom">
      <button type="button" class="small" aria-label="Closer" onClick={() => zoom(1.25)}>+</button>
      <button type="button" class="small" aria-label="Farther" onClick={() => zoom(0.8)}>−</button>
      <button type="button" class="small" onClick={reset}>Fit</button>
    </div>
  </>;
}

// Drags, Ctrl and the wheel, arrows, + and -. The view is set on the element itself: nothing is drawn anew.
function useView(svg: { current: SVGSVGElement | null }, places: Places) {
  const moved = useRef<SVGGElement>(null);
  const view = useRef<View>({ x: 0, y: 0, scale: 1 });
  const [width, setWidth] = useState(800);
  useEffect(() => setWidth(svg.current?.clientWidth ?? 800), [places]);
  const height = Math.round(Math.min(Math.max(110, places.height * scaleOf(places, width) + TOOLS), Math.max(300, innerHeight * 0.7)));
  const show = () => {
    const { x, y, scale } = view.current;
    moved.current?.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
  };
  const reset = () => {
    view.current = fit(places, svg.current?.clientWidth ?? 800, height - TOOLS);
    show();
  };
  const zoom = (by: number, at?: { x: number; y: number }) => {
    const { x, y, scale } = view.current;
    const next = Math.max(0.1, Math.min(3, scale * by));
    const point = at ?? { x: (svg.current?.clientWidth ?? 0) / 2, y: height / 2 };
    view.current = { scale: next, x: point.x - (point.x - x) * (next / scale), y: point.y - (point.y - y) * (next / scale) };
    show();
  };
  useEffect(reset, [places, width]);
  useEffect(() => {
    const element = svg.current!;
    let from: { x: number; y: number } | undefined;
    const pan = (x: number, y: number) => {
      view.current = { ...view.current, x: view.current.x + x, y: view.current.y + y };
      show();
    };
    const down = (event: PointerEvent) => { if (event.button === 0) from = { x: event.clientX, y: event.clientY }; };
    const drag = (event: PointerEvent) => {
      if (!from) return;
      pan(event.clientX - from.x, event.clientY - from.y);
      from = { x: event.clientX, y: event.clientY };
    };
    const up = () => { from = undefined; };
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = element.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - box.left, y: event.clientY - box.top });
    };
    const steps: Record<string, () => void> = {
      ArrowLeft: () => pan(40, 0), ArrowRight: () => pan(-40, 0), ArrowUp: () => pan(0, 40), ArrowDown: () => pan(0, -40),
      "+": () => zoom(1.25), "-": () => zoom(0.8), "0": reset,
    };
    const key = (event: KeyboardEvent) => {
      const step = steps[event.key];
      if (!step || event.ctrlKey || event.target !== element) return;
      event.preventDefault();
      step();
    };
    element.addEventListener("pointerdown", down);
    addEventListener("pointermove", drag);
    addEventListener("pointerup", up);
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("keydown", key);
    return () => {
      element.removeEventListener("pointerdown", down);
      removeEventListener("pointermove", drag);
      removeEventListener("pointerup", up);
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("keydown", key);
    };
  }, [places]);
  return { moved, zoom, reset, height };
}

function EdgeLine({ edge, path, label, passed, tone }: {
  edge: Edge; path: string; label?: { x: number; y: number }; passed?: number; tone?: string;
}) {
  const style = ["edge", passed ? "passed" : passed === 0 ? "faint" : "", tone ?? ""].join(" ").trim();
  const text = `${short(edge.label, 22)}${passed && passed > 1 ? ` ×${count(passed)}` : ""}`;
  return <g class={style}>
    <path d={path} marker-end="url(#tip)" />
    {label && <text x={label.x} y={label.y + 4} text-anchor="middle"><title>{clean(edge.label)}</title>{text}</text>}
  </g>;
}

function subOf(box: Box, seen: Seen): string {
  return seen.note ? short(seen.note, 30) : box.members !== undefined ? plural(box.members, "step") : "";
}

// What it says to those who do not see it: first what stands on it, as it stands there.
function saidOf(box: Box, seen: Seen): string {
  const badges = seen.badges ?? [];
  const below = badges.length > 0 ? badges.map((badge) => badge.text).join(" ") : subOf(box, seen);
  const counted = badges.map((badge) => (badge.text.includes(word(badge.state)) ? "" : `${badge.text} ${word(badge.state)}`));
  return [`${titleOf(box)} ${below}`.trim(), box.members === undefined ? word(box.kind) : "", ...counted, badges.length > 0 ? seen.note ?? "" : "",
    seen.faint ? "not reached" : ""].filter((part) => part !== "").join(", ");
}

function BoxShape({ box, place, seen, chosen, choose }: {
  box: Box; place: { x: number; y: number; width: number; height: number }; seen: Seen; chosen: boolean; choose?: (box: Box) => void;
}) {
  const second = inner(box, place);
  const style = ["box", `k-${box.kind}`, seen.tone ? `is-${look(seen.tone)} toned` : "", seen.faint ? "faint" : "", chosen ? "chosen" : ""]
    .filter((part) => part !== "").join(" ");
  const open = () => choose?.(box);
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    open();
  };
  const lower = seen.badges?.length || seen.note || box.members !== undefined;
  return <g class={style} transform={`translate(${place.x} ${place.y})`} role={choose ? "button" : "img"} tabIndex={choose ? 0 : undefined}
    aria-label={saidOf(box, seen)} aria-pressed={choose ? chosen : undefined} onClick={open} onKeyDown={pressed}>
    <title>{saidOf(box, seen)}</title>
    <path class="outline" d={outline(box, place)} />
    {second && <path class="inner" d={second} />}
    <text class="title" y={lower ? -5 : 4} text-anchor="middle">{titleOf(box)}</text>{" "}
    {seen.badges?.length ? <Badges badges={seen.badges} />
      : <text class="sub" y={13} text-anchor="middle">{subOf(box, seen)}</text>}
  </g>;
}

// In a row below the title, each with the mark of its state.
function Badges({ badges }: { badges: Badge[] }) {
  const widths = badges.map((badge) => 15 + widthOf(badge.text) * 0.92 + 6);
  const whole = widths.reduce((sum, width) => sum + width, 0);
  let x = -whole / 2;
  return <g class="badges">{badges.map((badge, i) => {
    const left = x;
    x += widths[i]!;
    return <g key={badge.state} class={`is-${look(badge.state)}`} transform={`translate(${left} 3)`}>
      <svg width="12" height="12" x="0" y="0"><Mark state={badge.state} /></svg>
      <text x="15" y="10">{badge.text}</text>{" "}</g>;
  })}</g>;
}

// Each transition moves a dot along its edge; where there are too many of them the edge is thicker.
function Dots({ moves, edges, paths }: { moves: Move[]; edges: Edge[]; paths: string[] }) {
  const still = useMemo(() => matchMedia("(prefers-reduced-motion: reduce)").matches, []);
  if (still) return null;
  const at = new Map(edges.map((edge, i) => [`${edge.from}\n${edge.to}`, i]));
  const byEdge = new Map<number, Move[]>();
  for (const move of moves) {
    const i = at.get(`${move.from}\n${move.to}`);
    if (i !== undefined) byEdge.set(i, [...(byEdge.get(i) ?? []), move]);
  }
  return <g class="dots" aria-hidden="true">{[...byEdge].map(([i, some]) => (some.length > BUSY
    ? <path key={`busy ${i}`} class="busy" d={paths[i]} />
    : some.map((move) => <Dot key={move.id} path={paths[i]!} />)))}</g>;
}

function Dot({ path }: { path: string }) {
  const motion = useRef<SVGAnimationElement>(null);
  const [over, setOver] = useState(false);
  useEffect(() => {
    motion.current?.beginElement();
    const timer = setTimeout(() => setOver(true), 900);
    return () => clearTimeout(timer);
  }, []);
  if (over) return null;
  return <circle r="5"><animateMotion ref={motion} begin="indefinite" dur="0.9s" fill="freeze" {...{ path }} /></circle>;
}

export function Legend({ states }: { states: string[] }) {
  return <p class="legend" aria-hidden="true">{states.map((state) =>
    <span key={state} class={`is-${look(state)}`}><Mark state={state} /> {word(state)}</span>)}</p>;
}
