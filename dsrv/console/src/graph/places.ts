// Where boxes and edges of a graph stand, in pixels.
export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
} // x, y: the middle
export interface Line {
  points: { x: number; y: number }[];
  label?: { x: number; y: number };
}
export interface Places {
  width: number;
  height: number;
  boxes: Record<string, Place>;
  edges: Line[];
}
export interface Sized {
  id: string;
  width: number;
  height: number;
}
export interface ToPlace {
  boxes: Sized[];
  edges: { from: string; to: string; width: number }[]; // of its label; 0: none
  down: boolean; // from the top down, else from the left
}
