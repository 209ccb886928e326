// All keys, by "?".
import { signal } from "@preact/signals";
import { allKeys } from "../state/keys";
import { keysOn } from "../state/settings";
import { Dialog } from "./dialog";

const shown = signal(false);

export function openHelp(): void {
  shown.value = true;
}

export function Help() {
  if (!shown.value) return null;
  const keys = allKeys();
  return (
    <Dialog
      title="Keys"
      close={() => {
        shown.value = false;
      }}
    >
      {!keysOn.value && <p class="about">They are switched off in the settings, but for Ctrl-K.</p>}
      <dl class="keys">
        {keys.map(({ keys: key, what }) => (
          <div key={key}>
            <dt>
              {key.split(" ").map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
