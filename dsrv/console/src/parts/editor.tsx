// Loads the editor when it is needed, and puts it into the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { asset } from "../api/base";
import type { Editor, Problem } from "../editor/editor";
import type * as EditorFile from "../editor/editor";

let loading: Promise<typeof EditorFile> | undefined;

export function loadEditor(): Promise<typeof EditorFile> {
  loading ??= import(asset("editor.js"));
  loading.catch(() => {
    loading = undefined;
  });
  return loading;
}

export function YamlEditor({
  text,
  change,
  problems,
  goTo,
}: {
  text: string;
  change: (text: string) => void;
  problems: Problem[];
  goTo?: { line: number };
}) {
  const host = useRef<HTMLDivElement>(null);
  const [editor, setEditor] = useState<Editor | undefined>();
  const changed = useRef(change);
  changed.current = change;
  const shown = useRef(text);
  useEffect(() => {
    let gone = false;
    let made: Editor | undefined;
    void loadEditor().then((file) => {
      if (gone || !host.current) return;
      made = file.mount(host.current, shown.current, (next) => {
        shown.current = next;
        changed.current(next);
      });
      setEditor(made);
    });
    return () => {
      gone = true;
      made?.destroy();
    };
  }, []);
  useEffect(() => editor?.setProblems(problems), [problems, editor]);
  useEffect(() => {
    if (goTo) editor?.goTo(goTo.line);
  }, [goTo]);
  return (
    <div class="editor" ref={host}>
      {!editor && <p class="waiting">Loading the editor …</p>}
    </div>
  );
}

export function Difference({
  before,
  after,
  titles,
}: {
  before: string;
  after: string;
  titles: [string, string];
}) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let destroy: (() => void) | undefined;
    let gone = false;
    void loadEditor().then((file) => {
      if (!gone && host.current) destroy = file.mountMerge(host.current, before, after, titles);
    });
    return () => {
      gone = true;
      destroy?.();
    };
  }, [before, after]);
  return (
    <div class="difference">
      <div class="titles">
        <span>{titles[0]}</span>
        <span>{titles[1]}</span>
      </div>
      <div class="merge" ref={host} />
    </div>
  );
}
