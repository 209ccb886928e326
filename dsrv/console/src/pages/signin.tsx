// /signin
import { useEffect, useState } from "preact/hooks";
import type { Refusal } from "../api/refusal";
import { go, ownAddress, query, to } from "../state/route";
import { signedIn, signIn } from "../state/session";
import { Command, Head, Panel, Refused } from "../parts/bits";
import { refusedSignIn, TokenForm } from "../parts/signin";

// dcli console prints an address with a code behind "#": good for one sign-in, and never sent in a URL.
function takeCode(): string {
  const code = location.hash.replace(/^#(code=)?/, "");
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

// Where one was going when asked to sign in; only pages of this server.
function wanted(): string {
  return ownAddress(query.value.get("next") ?? "") ?? to();
}

export function SignInPage() {
  const [refusal, setRefusal] = useState<Refusal | undefined>();
  useEffect(() => {
    const code = takeCode();
    if (code) signIn(code).catch((error) => setRefusal(refusedSignIn(error, "code")));
  }, []);
  useEffect(() => {
    if (signedIn.value) go(wanted());
  }, [signedIn.value]);
  return (
    <div class="center">
      <Head title="Sign in" />
      <Panel>
        <Refused refusal={refusal} />
        <TokenForm />
      </Panel>
      <p class="quiet">An admin makes tokens. With one in the shell, this opens the console signed in:</p>
      <Command of="dcli console" />
    </div>
  );
}
