// Signing in: on a page of its own, or over a page whose session has ended.
import { useState } from "preact/hooks";
import { Refusal, toRefusal } from "../api/refusal";
import { query } from "../state/route";
import { signIn } from "../state/session";
import { Field, Refused } from "./bits";
import { Dialog } from "./dialog";

// Why signing in failed, for a person: the server tells callers what to send.
export function refusedSignIn(error: unknown, what: "token" | "code"): Refusal {
  const refusal = toRefusal(error);
  if (!refusal.signedOut) return refusal;
  const why = what === "token" ? "it is mistyped, has expired or was revoked" : "it was used, or is too old";
  return new Refusal(refusal.code, refusal.reason, `This ${what} is not valid: ${why}.`);
}

export function TokenForm({ done, verb = "Sign in" }: { done?: () => void; verb?: string }) {
  const [token, setToken] = useState("");
  const [viewer, setViewer] = useState(query.value.get("as") === "viewer");
  const [refusal, setRefusal] = useState<Refusal | undefined>();
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await signIn(token.trim().replace(/^bearer\s+/i, ""), viewer ? "VIEWER" : undefined);
      setToken("");
      done?.();
    } catch (error) {
      setRefusal(refusedSignIn(error, "token"));
    }
  };
  return (
    <form class="signin" onSubmit={submit}>
      <Field
        label="Token"
        hint="It is sent once and kept nowhere: the session lasts 12 hours, in a cookie that no page can read."
      >
        {(id) => (
          <input
            id={id}
            type="password"
            autocomplete="off"
            value={token}
            required
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        )}
      </Field>
      <label class="check">
        <input
          type="checkbox"
          checked={viewer}
          onChange={(event) => setViewer(event.currentTarget.checked)}
        />
        <span>
          Only to look<small>as a viewer, whatever the token may do</small>
        </span>
      </label>
      <Refused refusal={refusal} />
      <footer>
        <button type="submit" class="primary" disabled={token.trim() === ""}>
          {verb}
        </button>
      </footer>
    </form>
  );
}

export function SignInAgain() {
  return (
    <Dialog title="The session has ended">
      <p class="about">Sign in again to go on where you are: what was typed is still there.</p>
      <TokenForm verb="Go on" />
    </Dialog>
  );
}
