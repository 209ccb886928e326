// JSON as it was written: laid out in lines, but no number is read, so that all its digits stay.

// The tokens of a JSON text, or undefined where it is none.
const TOKEN = /\s*("(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+)/y;

export function tokens(text: string): string[] | undefined {
  const found: string[] = [];
  TOKEN.lastIndex = 0;
  let at = 0;
  while (at < text.length) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (!match) return text.slice(at).trim() === "" ? found : undefined;
    found.push(match[1]!);
    at = TOKEN.lastIndex;
  }
  return found;
}

export function pretty(text: string): string {
  const all = tokens(text);
  if (!all) return text;
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let i = 0; i < all.length; ++i) {
    const token = all[i]!;
    const next = all[i + 1];
    if (token === "{" || token === "[") {
      if (next === "}" || next === "]") {
        out += token + next;
        ++i;
      } else {
        ++depth;
        out += token + line();
      }
    } else if (token === "}" || token === "]") {
      --depth;
      out += line() + token;
    } else if (token === ",") {
      out += token + line();
    } else {
      out += token === ":" ? ": " : token;
    }
  }
  return out;
}

// Why the text is no JSON object; empty: it is one.
export function objectProblem(text: string): string {
  if (text.trim() === "") return "";
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? ""
      : "It must be a JSON object.";
  } catch (error) {
    return `It is not JSON: ${error instanceof Error ? error.message : String(error)}.`;
  }
}

// The members of a JSON object with their values as they were written; undefined: it is no object.
export function members(text: string): [string, string][] | undefined {
  const all = tokens(text.trim() === "" ? "{}" : text);
  if (!all || all[0] !== "{" || objectProblem(text) !== "") return undefined;
  const found: [string, string][] = [];
  let depth = 0;
  let key: string | undefined;
  let value = "";
  for (const token of all) {
    if (token === "}" || token === "]") --depth;
    if (depth === 1 && key === undefined && token.startsWith('"')) key = JSON.parse(token) as string;
    else if (depth === 1 && token === ":" && value === "") value = "";
    else if ((depth === 1 && token === ",") || depth === 0) {
      if (key !== undefined) found.push([key, value]);
      key = undefined;
      value = "";
    } else value += token;
    if (token === "{" || token === "[") ++depth;
  }
  return found;
}

// The members of a map by their keys: a map has no order of its own.
export function sortedEntries<T>(map: Record<string, T> | undefined): [string, T][] {
  return Object.entries(map ?? {}).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

export function objectOf(parts: [string, string][]): string {
  return `{${parts.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(", ")}}`;
}
