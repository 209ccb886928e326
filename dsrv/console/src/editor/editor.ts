// The editor of YAML: loaded when a page needs it, as assets/editor.js. It lives in a shadow root, where
// its styles need no leave of the page's content security policy.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { MergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

export { readYaml } from "./yaml";

// Colours are the page's: custom properties reach into a shadow root.
const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "12.5px", height: "100%" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--accent)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--quiet)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--accent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--chosen)",
  },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-changedLine": { backgroundColor: "var(--amber-wash) !important" },
  ".cm-deletedChunk": { backgroundColor: "var(--red-wash)" },
  ".cm-collapsedLines": { background: "var(--sunk)", color: "var(--quiet)" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: "''" },
  ".cm-specialChar": { color: "var(--red)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--blue)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--teal)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.labelName, tags.typeName, tags.keyword], color: "var(--violet)" },
  { tag: [tags.separator, tags.punctuation], color: "var(--quiet)" },
]);

// What is put in place of a selection is put by the editor: the browser would keep the look of what was there in
// a style attribute, which the page's policy forbids.
const replacing = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const given = event.data;
    const selected = view.state.selection.ranges.some((range) => !range.empty);
    if (event.inputType !== "insertText" || given === null || !selected || event.isComposing) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(given), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

function base(label: string): Extension {
  return [
    lineNumbers(),
    highlightSpecialChars(),
    drawSelection(),
    yaml(),
    syntaxHighlighting(colours),
    theme,
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
  ];
}

export interface Problem {
  line: number;
  column: number;
  message: string;
  warning: boolean;
}
export interface Editor {
  setProblems: (problems: Problem[]) => void;
  setText: (text: string) => void;
  goTo: (line: number) => void;
  destroy: () => void;
}

function rootOf(host: HTMLElement): ShadowRoot {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  root.replaceChildren();
  return root;
}

export function mount(host: HTMLElement, text: string, changed: (text: string) => void): Editor {
  const root = rootOf(host);
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        base("YAML"),
        history(),
        highlightActiveLine(),
        bracketMatching(),
        indentOnInput(),
        replacing,
        lintGutter(),
        keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    setProblems: (problems) =>
      view.dispatch(
        setDiagnostics(
          view.state,
          problems.map((problem) => placed(view, problem)),
        ),
      ),
    setText: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    goTo: (line) => {
      const place = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
      view.dispatch({ selection: { anchor: place.from }, scrollIntoView: true });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}

function placed(view: EditorView, problem: Problem): Diagnostic {
  const line = view.state.doc.line(Math.min(Math.max(problem.line, 1), view.state.doc.lines));
  const from = Math.min(line.from + Math.max(problem.column - 1, 0), line.to);
  return {
    from,
    to: Math.max(from, line.to),
    severity: problem.warning ? "warning" : "error",
    message: problem.message,
  };
}

// Two texts side by side, their differences marked.
export function mountMerge(
  host: HTMLElement,
  before: string,
  after: string,
  titles: [string, string],
): () => void {
  const root = rootOf(host);
  const side = (doc: string, title: string) => ({
    doc,
    extensions: [base(title), EditorState.readOnly.of(true), EditorView.editable.of(false)],
  });
  const view = new MergeView({
    parent: root,
    root,
    a: side(before, titles[0]),
    b: side(after, titles[1]),
    collapseUnchanged: { margin: 3 },
  });
  return () => view.destroy();
}
