// Places graphs, in a worker: a graph of 500 boxes takes a second.
import { place } from "./place";
import type { ToPlace } from "./places";

onmessage = (event: MessageEvent<{ id: number; graph: ToPlace }>) => {
  const { id, graph } = event.data;
  try {
    postMessage({ id, places: place(graph) });
  } catch (error) {
    postMessage({ id, error: String(error) });
  }
};
