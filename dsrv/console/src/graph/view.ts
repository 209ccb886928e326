// How a drawing is looked at: dragged, zoomed, fitted. The view is set on the element itself, so that nothing
// is drawn anew.
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Places } from "./places";

const TOOLS = 32; // pixels of the buttons below
const LEGIBLE = 0.4; // a scale below which nobody reads the texts
const READ = 0.75; // at which a larger graph begins
const EDGE = 24; // pixels beside its first box

export interface View {
  x: number;
  y: number;
  scale: number;
}

function scaleOf(places: Places, width: number): number {
  return Math.min(1, width / places.width, Math.max((innerHeight * 0.6) / places.height, 0.3));
}

// A graph that would be too small to be read begins at its first box; "Fit" shows all of it.
export function beginOf(places: Places, width: number, height: number, first?: string): View {
  if (scaleOf(places, width) >= LEGIBLE) return fit(places, width, height);
  const box = places.boxes[first ?? ""] ?? Object.values(places.boxes)[0];
  if (!box) return fit(places, width, height);
  return places.width >= places.height
    ? { scale: READ, x: EDGE - (box.x - box.width / 2) * READ, y: middle(box.y, places.height, height) }
    : { scale: READ, x: middle(box.x, places.width, width), y: EDGE - (box.y - box.height / 2) * READ };
}

// Puts a place of the drawing in the middle of the room, but leaves no room beside the drawing.
function middle(at: number, size: number, room: number): number {
  const over = room - size * READ;
  return over >= 0 ? over / 2 : Math.max(over, Math.min(0, room / 2 - at * READ));
}

function fit(places: Places, width: number, height: number): View {
  const scale = scaleOf(places, width);
  return {
    scale,
    x: Math.max(0, (width - places.width * scale) / 2),
    y: Math.max(0, (height - places.height * scale) / 2),
  };
}

function transformOf({ x, y, scale }: View): string {
  return `translate(${x} ${y}) scale(${scale})`;
}

// Drags, Ctrl and the wheel, arrows, + and -.
// `width`: of the drawing when the places came.
export function useView(
  svg: { current: SVGSVGElement | null },
  places: Places,
  width: number,
  first: string | undefined, // the box that a large graph begins at
) {
  const moved = useRef<SVGGElement>(null);
  const whole = scaleOf(places, width);
  const high = places.height * (whole >= LEGIBLE ? whole : READ) + TOOLS;
  const height = Math.round(Math.min(Math.max(110, high), Math.max(300, innerHeight * 0.7)));
  // It is drawn where it is to stand at once: each other scale measures all its texts again.
  const begin = useMemo(() => beginOf(places, width, height - TOOLS, first), [places, width]);
  const view = useRef(begin);
  const begun = useRef(begin);
  if (begun.current !== begin) view.current = begun.current = begin;
  const show = () => moved.current?.setAttribute("transform", transformOf(view.current));
  const reset = () => {
    view.current = fit(places, svg.current?.clientWidth ?? width, height - TOOLS);
    show();
  };
  const zoom = (by: number, at?: { x: number; y: number }) => {
    const { x, y, scale } = view.current;
    const next = Math.max(0.1, Math.min(3, scale * by));
    const point = at ?? { x: (svg.current?.clientWidth ?? 0) / 2, y: height / 2 };
    view.current = {
      scale: next,
      x: point.x - (point.x - x) * (next / scale),
      y: point.y - (point.y - y) * (next / scale),
    };
    show();
  };
  useEffect(() => {
    const element = svg.current!;
    let from: { x: number; y: number } | undefined;
    const pan = (x: number, y: number) => {
      view.current = { ...view.current, x: view.current.x + x, y: view.current.y + y };
      show();
    };
    const down = (event: PointerEvent) => {
      if (event.button === 0) from = { x: event.clientX, y: event.clientY };
    };
    const drag = (event: PointerEvent) => {
      if (!from) return;
      pan(event.clientX - from.x, event.clientY - from.y);
      from = { x: event.clientX, y: event.clientY };
    };
    const up = () => {
      from = undefined;
    };
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = element.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - box.left, y: event.clientY - box.top });
    };
    const steps: Record<string, () => void> = {
      ArrowLeft: () => pan(40, 0),
      ArrowRight: () => pan(-40, 0),
      ArrowUp: () => pan(0, 40),
      ArrowDown: () => pan(0, -40),
      "+": () => zoom(1.25),
      "-": () => zoom(0.8),
      "0": reset,
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
  return { moved, transform: transformOf(begin), zoom, reset, height };
}
