// Texts of instances are anybody's: they are shown as text, and characters that hide or reorder what
// stands beside them are written out.

// Control characters (a line break and a tab are told by the caller), bidi controls, invisible ones.
const HOSTILE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function written(character: string): string {
  return SHORT[character] ?? `\\u{${character.codePointAt(0)!.toString(16).padStart(4, "0")}}`;
}

// On one line.
export function clean(text: string): string {
  return text.replace(HOSTILE, written);
}

// With its line breaks and tabs.
export function cleanLines(text: string): string {
  return text.replace(HOSTILE, (character) =>
    character === "\n" || character === "\t" ? character : written(character),
  );
}

// At most so many characters, the rest as an ellipsis.
export function short(text: string, most: number): string {
  const safe = clean(text);
  return safe.length <= most ? safe : `${safe.slice(0, most - 1).trimEnd()}…`;
}
