// The path in front of all routes (dsrv --http-base), without a slash at its end: that of this script.
function baseOf(url: string): string {
  const at = url.indexOf("/assets/");
  return at < 0 ? "" : url.slice(0, at);
}

export const base = typeof location === "undefined" ? "" : baseOf(new URL(import.meta.url).pathname);
