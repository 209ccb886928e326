// Actions as commands: what a page does, for a shell.

export function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

export function commandLine(words: (string | undefined | false)[]): string {
  return words
    .filter((word): word is string => typeof word === "string")
    .map(quoted)
    .join(" ");
}

export function dcliLine(words: (string | undefined | false)[], namespace: string): string {
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
