// An archive of a package, dropped on the page or chosen, and sent in pieces.
import { useEffect, useState } from "preact/hooks";
import { toRefusal, type Refusal } from "../api/refusal";
import { send } from "../api/stream";
import type { PutPackageRequestJson } from "../api/types";
import { tell } from "../parts/act";
import { Command, Refused } from "../parts/bits";
import { Dialog } from "../parts/dialog";
import { namespace } from "../state/route";
import { may } from "../state/session";
import { argument, dcliLine } from "../text/shell";
import { bytes } from "../text/words";

export function useDrop(dropped: (file: File) => void): void {
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    };
    const drop = (event: DragEvent) => {
      const file = event.dataTransfer?.files[0];
      if (!file) return;
      event.preventDefault();
      if (may("OPERATOR")) dropped(file);
      else tell("Putting a package takes the role operator.");
    };
    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", drop);
    };
  }, []);
}

const PIECE = 512 * 1024;

async function base64(blob: Blob): Promise<string> {
  const data = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < data.length; at += 0x8000)
    text += String.fromCharCode(...data.subarray(at, at + 0x8000));
  return btoa(text);
}

async function messagesFor(file: File): Promise<PutPackageRequestJson[]> {
  const messages: PutPackageRequestJson[] = [
    { header: { namespace: namespace.value, size: String(file.size) } },
  ];
  for (let at = 0; at < file.size; at += PIECE)
    messages.push({ data: await base64(file.slice(at, at + PIECE)) });
  return messages;
}

export function Put({ file, close, done }: { file: File; close: () => void; done: () => void }) {
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<Refusal | undefined>();
  const put = async () => {
    setBusy(true);
    try {
      const reply = await send("PackageService", "PutPackage", await messagesFor(file));
      tell(
        `${reply.package?.package} ${reply.package?.version} ${reply.created ? "is there now" : "was there already"}.`,
      );
      done();
    } catch (error) {
      setRefusal(toRefusal(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Put ${file.name}`} close={close}>
      <p class="about">
        {bytes(file.size)}. It is checked and kept; nothing runs on it before it is activated.
      </p>
      <Refused refusal={refusal} />
      <footer>
        <button type="button" onClick={close}>
          Back
        </button>
        <button type="button" class="primary" disabled={busy} onClick={() => void put()}>
          {busy ? "Sending …" : "Put"}
        </button>
      </footer>
      <Command of={dcliLine(["package", "push", argument(file.name)], namespace.value)} />
    </Dialog>
  );
}
