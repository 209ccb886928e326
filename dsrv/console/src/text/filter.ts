// The language of filters, as far as the page changes one for its user: console.md has all of it.

// The terms of a filter: what stands between spaces, outside of quotes.
export function terms(filter: string): string[] {
  return filter.match(/(?:"(?:[^"\\]|\\.)*"|[^\s"])+/g) ?? [];
}

export function quoteValue(value: string): string {
  return /^[^\s",*]+$/.test(value) ? value : `"${value.replace(/[\\"]/g, "\\$&")}"`;
}

// A bare word that is meant as it stands, whatever is in it.
export function bareWord(text: string): string {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

export function term(key: string, value: string): string {
  return `${key}:${quoteValue(value)}`;
}

function keyOf(text: string): string {
  return /^-?([\w.-]+):/.exec(text)?.[1] ?? "";
}

// The filter with this term in place of those with its key.
export function withTerm(filter: string, key: string, value: string | undefined): string {
  const others = terms(filter).filter((text) => keyOf(text) !== key);
  return [...others, ...(value === undefined ? [] : [term(key, value)])].join(" ");
}

// The value that a filter has for a key, where it has one alone.
export function valueOf(filter: string, key: string): string | undefined {
  const found = terms(filter).filter((text) => keyOf(text) === key && !text.startsWith("-"));
  return found.length === 1 ? found[0]!.slice(key.length + 1) : undefined;
}
