// Actions as commands: what a page does, for a shell.

export function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/.test(word)
    ? word
    : `'${word.replace(/'/g, `'\\''`)}'`;
}

// An argument that is anybody's, such as an id: one that begins as a flag does is none.
export interface Argument {
  argument: string | undefined;
}
export type Word = string | Argument | undefined | false;

export function argument(text: string | undefined): Argument {
  return { argument: text };
}

export function commandLine(words: Word[]): string {
  const given = words.filter((word): word is string | Argument => !!word || word === "");
  const textOf = (word: string | Argument) => (typeof word === "string" ? word : (word.argument ?? ""));
  const ofOthers = given.filter((word) => typeof word !== "string").map(textOf);
  const line = ofOthers.some((text) => text.startsWith("-"))
    ? [...given.filter((word) => typeof word === "string"), "--", ...ofOthers]
    : given.map(textOf);
  return line.map(quoted).join(" ");
}

export function dcliLine(words: Word[], namespace: string): string {
  const space = namespace === "default" ? [] : ["--namespace", namespace];
  return commandLine(["dcli", ...space, ...words]);
}

export function curlLine(url: string, request: unknown, withToken: boolean): string {
  return (
    commandLine(["curl", "-s", url, "-H", "content-type: application/json"]) +
    (withToken ? ` -H "authorization: Bearer $TOKEN"` : "") +
    ` \\\n  -d ${quoted(JSON.stringify(request))}`
  );
}
