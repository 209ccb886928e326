// Where this script came from tells the path in front of all routes (dsrv --http-base), without a slash
// at its end, and the version of the files, which the server puts behind the links of its page.
const own = typeof location === "undefined" ? undefined : new URL(import.meta.url);

function baseOf(path: string): string {
  const at = path.indexOf("/assets/");
  return at < 0 ? "" : path.slice(0, at);
}

export const base = own ? baseOf(own.pathname) : "";

// A file of this build, which may be cached for ever.
export function asset(name: string): string {
  return `${base}/assets/${name}${own?.search ?? ""}`;
}
