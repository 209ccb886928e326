// Params, outputs and errors, as they were written.
import type { Shown } from "./index";
import { Panel } from "../../parts/bits";
import { Json } from "../../parts/json";
import { Id, Lines } from "../../parts/text";
import { count } from "../../text/words";

export function DataTab({ followed }: Shown) {
  const one = followed.instance;
  const outputs = Object.entries(one.outputs ?? {});
  const leftOut = Number(one.outputsLeftOut ?? 0);
  const errors = [
    ...(one.error ? [["", one.error] as const] : []),
    ...(one.tokens ?? []).filter((token) => token.error).map((token) => [token.node!, token.error!] as const),
  ];
  return (
    <div class="stack">
      <Panel title="Params it was started with">
        <Json of={one.params} empty="None: it was started without params." />
      </Panel>
      {errors.length > 0 && (
        <Panel title="Errors">
          {errors.map(([node, error]) => (
            <div key={node}>
              {node && (
                <h3>
                  <Id of={node} />
                </h3>
              )}
              <p class="notice bad">
                <Lines of={error} />
              </p>
            </div>
          ))}
        </Panel>
      )}
      <Panel title="Outputs">
        {outputs.length === 0 && <p class="quiet">Nothing has been reported with an output yet.</p>}
        {outputs.map(([node, output]) => (
          <div key={node} class="output">
            <h3>
              <Id of={node} />
            </h3>
            <Json of={output} />
          </div>
        ))}
        {leftOut > 0 && <p class="quiet">{count(leftOut)} more do not fit into a message.</p>}
      </Panel>
    </div>
  );
}
