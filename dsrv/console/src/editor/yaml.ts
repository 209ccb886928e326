// Values of YAML, as far as machines are written in it: what a form for a machine's params is made of.
// The server decides what a document means; this only reads what the server has taken.
import { parser } from "@lezer/yaml";
import type { SyntaxNode } from "@lezer/common";

export type Value = string | number | boolean | null | Value[] | { [key: string]: Value };

const PLAIN: Record<string, Value> = {
  "": null,
  "~": null,
  null: null,
  Null: null,
  NULL: null,
  true: true,
  True: true,
  TRUE: true,
  false: false,
  False: false,
  FALSE: false,
};
const NUMBER = /^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$/;

class Reader {
  private anchors = new Map<string, Value>();
  constructor(private text: string) {}

  private slice(node: SyntaxNode): string {
    return this.text.slice(node.from, node.to);
  }

  value(node: SyntaxNode | null): Value {
    if (!node) return null;
    switch (node.name) {
      case "BlockMapping":
      case "FlowMapping":
        return this.mapping(node);
      case "BlockSequence":
      case "FlowSequence":
        return this.sequence(node);
      case "QuotedLiteral":
        return this.quoted(this.slice(node));
      case "BlockLiteral":
        return this.block(node);
      case "Literal":
        return this.plain(this.slice(node));
      case "Anchored": {
        const anchor = node.getChild("Anchor");
        const value = this.value(node.lastChild);
        if (anchor) this.anchors.set(this.slice(anchor).slice(1), value);
        return value;
      }
      case "Tagged":
        return this.value(node.lastChild);
      case "Alias":
        return this.anchors.get(this.slice(node).slice(1)) ?? null;
      default:
        return null;
    }
  }

  private mapping(node: SyntaxNode): Value {
    const entries: [string, Value][] = [];
    for (const pair of node.getChildren("Pair")) {
      const key = pair.getChild("Key")?.firstChild;
      const last = pair.lastChild;
      const bare = !last || last.name === "Key" || last.name === ":" || last.name === "⚠";
      if (key) entries.push([String(this.value(key)), bare ? null : this.value(last)]);
    }
    return Object.fromEntries(entries);
  }

  private sequence(node: SyntaxNode): Value {
    return node.getChildren("Item").map((item) => {
      const inner = item.lastChild;
      if (!inner || inner.name === "-") return null;
      return inner.name === "Pair" ? this.mapping(item) : this.value(inner);
    });
  }

  private plain(text: string): Value {
    const line = text.split(/\s*\n\s*/).join(" ");
    if (line in PLAIN) return PLAIN[line]!;
    return NUMBER.test(line) ? Number(line) : line;
  }

  private quoted(text: string): string {
    const inner = text.slice(1, -1).replace(/[ \t]*\n\s*/g, " ");
    if (text[0] === "'") return inner.replace(/''/g, "'");
    try {
      return JSON.parse(`"${inner}"`) as string;
    } catch {
      return inner;
    }
  }

  private block(node: SyntaxNode): string {
    const [head = "", ...lines] = this.slice(node).split("\n");
    const indent = Math.min(
      ...lines.filter((line) => line.trim()).map((line) => /^ */.exec(line)![0].length),
    );
    const text = lines.map((line) => line.slice(Number.isFinite(indent) ? indent : 0));
    return head.startsWith(">") ? text.join(" ") : text.join("\n");
  }
}

// The documents of a file.
export function readYaml(text: string): Value[] {
  const reader = new Reader(text);
  const documents: Value[] = [];
  for (let node = parser.parse(text).topNode.firstChild; node; node = node.nextSibling) {
    if (node.name !== "Document") continue;
    const content = node.getChild("BlockMapping") ?? node.getChild("FlowMapping") ?? node.lastChild;
    documents.push(reader.value(content));
  }
  return documents;
}
