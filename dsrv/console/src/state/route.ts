// The address of the page, which holds everything that the page shows.
import { computed, signal } from "@preact/signals";
import { base } from "../api/base";
import { ownNamespace } from "./session";
import { lastNamespace } from "./settings";

function here(): string {
  return location.pathname.slice(base.length) + location.search;
}

const address = signal(typeof location === "undefined" ? "/" : here());

export const path = computed(() => address.value.split("?", 1)[0]!);
export const query = computed(() => new URLSearchParams(address.value.slice(path.value.length)));

// The parts of the path, decoded: ["n", "default", "instances", "page-1"].
export const parts = computed(() =>
  path.value
    .split("/")
    .filter((part) => part !== "")
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    }),
);

// That of the address; where it has none, the only one that the caller may see, or the one used last.
export const namespace = computed(
  () => (parts.value[0] === "n" && parts.value[1]) || ownNamespace.value || lastNamespace.value,
);

export type Params = Record<string, string | number | undefined>;

export function queryText(params: Params): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}

// An address below the namespace: to("instances", id), to("instances", {q: "is:held"}).
export function to(...steps: (string | Params)[]): string {
  return toIn(namespace.value, ...steps);
}

export function toIn(space: string, ...steps: (string | Params)[]): string {
  const words = ["n", space, ...steps.filter((step): step is string => typeof step === "string")];
  const params = steps.find((step): step is Params => typeof step === "object");
  return `/${words.map(encodeURIComponent).join("/")}${params ? queryText(params) : ""}`;
}

// As a browser needs it in a link.
export function href(url: string): string {
  return base + url;
}

export function go(url: string): void {
  if (url === address.value) return;
  history.pushState(null, "", href(url));
  address.value = here();
  scrollTo(0, 0);
}

export function replace(url: string): void {
  history.replaceState(null, "", href(url));
  address.value = here();
}

// Changes parameters of this page's address; the others stay. `push`: Back undoes it.
export function setQuery(changes: Params, push = false): void {
  const search: Params = Object.fromEntries(query.value);
  const url = path.value + queryText({ ...search, ...changes });
  if (push && url !== address.value) {
    history.pushState(null, "", href(url));
    address.value = here();
  } else {
    replace(url);
  }
}

// A page of this console that somebody else's text names; undefined: it leads elsewhere.
export function ownAddress(text: string): string | undefined {
  if (!text.startsWith("/")) return undefined;
  try {
    const { origin, pathname, search } = new URL(text, location.origin);
    return origin === location.origin && !pathname.startsWith("//") ? pathname + search : undefined;
  } catch {
    return undefined;
  }
}

export function followAddress(): void {
  addEventListener("popstate", () => {
    address.value = here();
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!link || link.hasAttribute("download") || link.getAttribute("target")) return;
    const url = link.getAttribute("href")!;
    if (!url.startsWith(`${base}/`) || url.startsWith(`${base}/assets/`)) return;
    event.preventDefault();
    go(url.slice(base.length));
  });
}
