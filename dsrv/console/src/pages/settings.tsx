// /settings
import type { Signal } from "@preact/signals";
import { toRefusal } from "../api/refusal";
import { go } from "../state/route";
import { authOff, session, signedIn, signOut } from "../state/session";
import { keysOn, theme, times, views } from "../state/settings";
import { Facts, Head, Panel } from "../parts/bits";
import { tell } from "../parts/act";
import { Id, Text, Time } from "../parts/text";
import { openHelp } from "../parts/help";
import { word } from "../text/words";

function Choice<T extends string>({
  legend,
  of,
  choices,
}: {
  legend: string;
  of: Signal<T>;
  choices: [T, string][];
}) {
  return (
    <fieldset class="choice">
      <legend>{legend}</legend>
      {choices.map(([value, label]) => (
        <label key={value}>
          <input
            type="radio"
            name={legend}
            checked={of.value === value}
            onChange={() => {
              of.value = value;
            }}
          />
          {label}
        </label>
      ))}
    </fieldset>
  );
}

// A session cannot make another one: the token is asked for again.
async function lookOnly(): Promise<void> {
  await signOut().catch(() => undefined);
  go("/signin?as=viewer&next=/settings");
}

async function leave(): Promise<void> {
  try {
    await signOut();
    go("/signin");
  } catch (error) {
    tell(toRefusal(error).message);
  }
}

function Account() {
  if (authOff.value) {
    return (
      <p>
        This server asks nobody who they are (<code>--auth off</code>): whoever reaches it may do everything.
      </p>
    );
  }
  if (!signedIn.value)
    return (
      <p>
        <button type="button" class="primary" onClick={() => go("/signin")}>
          Sign in
        </button>
      </p>
    );
  const own = session.value!;
  return (
    <>
      <Facts
        rows={[
          ["Token", <Text of={own.name || own.id} />],
          ["Role", word(own.role)],
          ["Namespace", <Id of={own.namespace} />],
          ["Session", <Id of={own.id} />],
          ["Ends", own.expireTime && <Time of={own.expireTime} />],
        ]}
      />
      <div class="actions">
        <button type="button" onClick={() => void leave()}>
          Sign out
        </button>
        {own.role !== "VIEWER" && (
          <button type="button" onClick={() => void lookOnly()}>
            Sign in again as a viewer
          </button>
        )}
      </div>
    </>
  );
}

export function SettingsPage() {
  return (
    <>
      <Head title="Settings" about="Kept in this browser, and nowhere else." />
      <div class="columns">
        <Panel title="How it looks">
          <Choice
            legend="Theme"
            of={theme}
            choices={[
              ["system", "As the system"],
              ["light", "Light"],
              ["dark", "Dark"],
            ]}
          />
          <Choice
            legend="Times"
            of={times}
            choices={[
              ["ago", "How long ago"],
              ["local", "Local time"],
              ["utc", "UTC"],
            ]}
          />
          <fieldset class="choice">
            <legend>Keys</legend>
            <label>
              <input
                type="checkbox"
                checked={keysOn.value}
                onChange={(event) => {
                  keysOn.value = event.currentTarget.checked;
                }}
              />
              Single letters are keys
            </label>
            <button type="button" class="small" onClick={openHelp}>
              All keys
            </button>
          </fieldset>
        </Panel>
        <Panel title="Who you are">
          <Account />
        </Panel>
        {views.value.length > 0 && (
          <Panel title="Saved views">
            <ul class="plain">
              {views.value.map((view) => (
                <li key={view.name}>
                  <Text of={view.name} />{" "}
                  <button
                    type="button"
                    class="small"
                    onClick={() => {
                      views.value = views.value.filter((one) => one !== view);
                    }}
                  >
                    Forget
                  </button>
                </li>
              ))}
            </ul>
          </Panel>
        )}
      </div>
    </>
  );
}
