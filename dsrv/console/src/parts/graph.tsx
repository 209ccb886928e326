// The one graph: boxes that open, counts and tokens on them, dots that move. Its places depend on what it
// consists of alone, so that they and the zoom stay when counts change.
import type { ComponentChild } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { layout, prepare } from "../graph/layout";
import type { Box, Edge, Graph } from "../graph/model";
import type { Places, ToPlace } from "../graph/places";
import { curve } from "../graph/shapes";
import { useView } from "../graph/view";
import { short } from "../text/clean";
import { plural, word } from "../text/words";
import { usePortions } from "./portions";
import { BoxShape, EdgeLine, titleOf, widthOf, type Seen } from "./box";
import { look, Mark } from "./text";

export type { Seen } from "./box";

export interface Move {
  id: string;
  from: string;
  to: string;
}

interface Props {
  graph: Graph;
  name: string;
  seen?: (box: Box) => Seen;
  passed?: (edge: Edge) => number | undefined; // how often; undefined: not told
  edgeTone?: (edge: Edge) => string | undefined;
  chosen?: string;
  choose?: (box: Box) => void;
  moves?: Move[];
  stands?: () => void; // all of it is drawn, or it cannot be laid out: what is below comes then
}

const LINE = 17;
const FIRST = 40; // boxes of the first frame, while they are drawn for the first time
const BUSY = 20; // dots on an edge, from which on it is drawn thicker instead

function toPlace(graph: Graph, lines: number, down: boolean): ToPlace {
  return {
    down,
    boxes: graph.boxes.map((box) => {
      const width =
        Math.min(230, Math.max(box.kind === "group" ? 180 : 110, widthOf(titleOf(box)) + 34)) *
        (box.kind === "gate" ? 1.3 : 1);
      return { id: box.id, width, height: 14 + LINE * lines + (box.kind === "gate" ? 14 : 0) };
    }),
    edges: graph.edges.map(({ from, to, label }) => ({
      from,
      to,
      width: label ? Math.min(150, widthOf(short(label, 22)) * 0.86) : 0,
    })),
  };
}

const NARROW = 620;

interface Laid {
  places?: Places;
  error?: string;
  width: number; // of the drawing, when the places came
}

function usePlaces(
  graph: Graph,
  lines: number,
  host: { current: HTMLElement | null },
): Laid {
  const [state, setState] = useState<Laid & { of: string }>({ of: "", width: 0 });
  const key = useMemo(() => JSON.stringify([graph, lines]), [graph, lines]);
  useEffect(() => {
    let stale = false;
    const widthNow = () => host.current?.clientWidth ?? innerWidth;
    layout(toPlace(graph, lines, widthNow() < NARROW)).then(
      (places) => {
        if (!stale) setState({ of: key, places, width: widthNow() });
      },
      (error) => {
        if (!stale) setState({ of: key, error: String(error), width: 0 });
      },
    );
    return () => {
      stale = true;
    };
  }, [key]);
  return state.of === key ? state : { width: 0 };
}

// For a page that will show a graph once it knows of which.
export function useGraph(shows: boolean) {
  useEffect(() => {
    if (shows) prepare();
  }, [shows]);
}

export function GraphView(props: Props) {
  const { graph } = props;
  const looks = new Map(graph.boxes.map((box) => [box.id, props.seen?.(box) ?? {}]));
  const host = useRef<HTMLDivElement>(null);
  const { places, error, width } = usePlaces(graph, props.seen ? 2 : 1, host);
  useEffect(() => {
    if (error) props.stands?.();
  }, [error]);
  return (
    <div class="graph" ref={host}>
      {error ? (
        <p class="notice warn">The graph could not be laid out: {error}</p>
      ) : places ? (
        <Drawing {...props} places={places} width={width} looks={looks} />
      ) : (
        <p class="waiting" aria-busy="true">
          Laying out {plural(graph.boxes.length, "box", "boxes")} …
        </p>
      )}
    </div>
  );
}

interface DrawingProps extends Props {
  places: Places;
  width: number;
  looks: Map<string, Seen>;
}

function Drawing({ places, width, looks, ...props }: DrawingProps) {
  const { graph } = props;
  const svg = useRef<SVGSVGElement>(null);
  const { moved, transform, zoom, reset, height } = useView(svg, places, width, graph.boxes.find((box) => box.start)?.id);
  const paths = useMemo(() => places.edges.map(curve), [places]);
  const all = graph.boxes.length + graph.edges.length;
  const drawn = usePortions(all, FIRST, { of: places }); // the boxes first
  useEffect(() => {
    if (drawn === all) props.stands?.();
  }, [drawn === all]);
  return (
    <>
      <svg
        ref={svg}
        height={height}
        role="group"
        aria-label={props.name}
        aria-busy={drawn < all}
        tabIndex={0}
        class="drawing"
      >
        <defs>
          <marker
            id="tip"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto-start-reverse"
          >
            <path d="M0 .5L7.5 4L0 7.5z" />
          </marker>
        </defs>
        <g ref={moved} transform={transform}>
          <g>
            <Portions of={graph.edges} drawn={drawn - graph.boxes.length} by={[places, props.passed, props.edgeTone]}>
              {(edge, i) => (
                <EdgeLine
                  key={`${edge.from} ${edge.to}`}
                  edge={edge}
                  path={paths[i]!}
                  label={places.edges[i]?.label}
                  passed={props.passed?.(edge)}
                  tone={props.edgeTone?.(edge)}
                />
              )}
            </Portions>
          </g>
          <g>
            <Portions of={graph.boxes} drawn={drawn} by={[places, looks, props.chosen, props.choose]}>
              {(box) =>
                places.boxes[box.id] && (
                  <BoxShape
                    key={box.id}
                    box={box}
                    place={places.boxes[box.id]!}
                    seen={looks.get(box.id) ?? {}}
                    chosen={props.chosen === box.id}
                    choose={props.choose}
                  />
                )
              }
            </Portions>
          </g>
          <Dots moves={props.moves ?? []} edges={graph.edges} paths={paths} />
        </g>
      </svg>
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" class="small" aria-label="Closer" onClick={() => zoom(1.25)}>
          +
        </button>
        <button type="button" class="small" aria-label="Farther" onClick={() => zoom(0.8)}>
          −
        </button>
        <button type="button" class="small" onClick={reset}>
          Fit
        </button>
      </div>
    </>
  );
}

interface PortionsProps<Item> {
  of: Item[];
  drawn: number; // the first ones
  by: unknown[]; // what else they are drawn by
  children: (item: Item, i: number) => ComponentChild;
}

// While the next portion comes, those that are there already are not looked at again.
function Portions<Item>({ of, drawn, by, children }: PortionsProps<Item>) {
  const shown = of.slice(0, Math.max(0, drawn));
  const portions = Array.from({ length: Math.ceil(shown.length / FIRST) }, (_, i) => i * FIRST);
  return (
    <>
      {portions.map((begin) => (
        <Portion key={begin} of={shown.slice(begin, begin + FIRST)} by={by}>
          {(item, i) => children(item, begin + i)}
        </Portion>
      ))}
    </>
  );
}

function Portion<Item>({ of, by, children }: Omit<PortionsProps<Item>, "drawn">) {
  return useMemo(() => <>{of.map(children)}</>, [of.length, of[0], ...by]);
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
  return (
    <g class="dots" aria-hidden="true">
      {[...byEdge].map(([i, some]) =>
        some.length > BUSY ? (
          <path key={`busy ${i}`} class="busy" d={paths[i]} />
        ) : (
          some.map((move) => <Dot key={move.id} path={paths[i]!} />)
        ),
      )}
    </g>
  );
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
  return (
    <circle r="5">
      <animateMotion ref={motion} begin="indefinite" dur="0.9s" fill="freeze" {...{ path }} />
    </circle>
  );
}

export function Legend({ states }: { states: string[] }) {
  return (
    <p class="legend" aria-hidden="true">
      {states.map((state) => (
        <span key={state} class={`is-${look(state)}`}>
          <Mark state={state} /> {word(state)}
        </span>
      ))}
    </p>
  );
}
