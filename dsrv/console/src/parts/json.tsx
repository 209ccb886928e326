// JSON as it was written, to be read and copied.
import { cleanLines } from "../text/clean";
import { pretty } from "../text/json";
import { Copy } from "./bits";

export function Json({ of, empty = "{}" }: { of: string | undefined; empty?: string }) {
  const text = of || "";
  if (text === "" || text === "{}") return <span class="none">{empty}</span>;
  return (
    <div class="json">
      <pre class="code">{cleanLines(pretty(text))}</pre>
      <Copy text={text} />
    </div>
  );
}
