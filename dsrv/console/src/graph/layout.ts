// layout(graph): where everything stands. The one place that knows of the worker.
import { asset } from "../api/base";
import type { Places, ToPlace } from "./places";

interface TrustedTypes {
  createPolicy: (
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ) => { createScriptURL: (url: string) => string };
}

const waiting = new Map<number, { resolve: (places: Places) => void; reject: (error: Error) => void }>();
let last = 0;
let worker: Worker | undefined;

// Only the worker's own address is a script that the page makes.
function scriptUrl(): string {
  const url = asset("layout.js");
  const types = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
  if (!types) return url;
  return types
    .createPolicy("dfsmr", {
      createScriptURL: (asked) => {
        if (asked !== url) throw new TypeError(`no script of the console: ${asked}`);
        return asked;
      },
    })
    .createScriptURL(url);
}

function made(): Worker {
  if (worker) return worker;
  worker = new Worker(scriptUrl());
  worker.onmessage = ({ data }: MessageEvent<{ id: number; places?: Places; error?: string }>) => {
    const asked = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.places) asked?.resolve(data.places);
    else asked?.reject(new Error(data.error));
  };
  return worker;
}

// Has the worker begin, which takes a moment: while the page still asks for what it is to lay out.
export function prepare(): void {
  made();
}

export function layout(graph: ToPlace): Promise<Places> {
  const id = ++last;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    made().postMessage({ id, graph });
  });
}
