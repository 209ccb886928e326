import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { onAnswered } from "./api/call";
import { toRefusal, type Refusal } from "./api/refusal";
import { Empty, Refused } from "./parts/bits";
import { Shell } from "./parts/shell";
import { askAhead } from "./pages/asks";
import { loadAhead, pageAt } from "./pages/routes";
import { SignInPage } from "./pages/signin";
import { runClock } from "./state/clock";
import { listenToKeys } from "./state/keys";
import { watchVisibility } from "./state/live";
import { followAddress, go, href, namespace, parts, path, query, replace, to } from "./state/route";
import { loadSession, session, signedIn, watchSession } from "./state/session";
import { keepSettings, lastNamespace } from "./state/settings";
import { runWatch } from "./state/watch";

function App() {
  const [refusal, setRefusal] = useState<Refusal | undefined>();
  const load = (asking = loadSession()) =>
    asking.then(
      () => setRefusal(undefined),
      (error) => setRefusal(toRefusal(error)),
    );
  useEffect(() => void load(asked), []);
  const known = session.value !== undefined;
  const first = parts.value[0];
  const page = pageAt(parts.value);
  useEffect(() => {
    document.title = `${first === "signin" ? "Sign in" : (page?.title ?? "No such page")} · ${namespace.value} · dfsmr`;
  });
  useEffect(() => {
    if (path.value === "/") replace(to());
    else if (known && !signedIn.value && first !== "signin" && first !== "settings") {
      const search = query.value.toString();
      go(`/signin?next=${encodeURIComponent(path.value + (search ? `?${search}` : ""))}`);
    }
  }, [path.value, known, signedIn.value]);
  if (refusal) {
    return (
      <div class="center">
        <h1>The server does not answer</h1>
        <Refused refusal={refusal} />
        <p>
          <button type="button" class="primary" onClick={() => void load()}>
            Try again
          </button>
        </p>
      </div>
    );
  }
  if (!known) return null;
  if (first === "signin" || (!signedIn.value && first !== "settings"))
    return (
      <main>
        <SignInPage />
      </main>
    );
  return (
    <Shell>
      {page ? (
        <page.view key={page.key} />
      ) : (
        <Empty page title="There is no such page.">
          <a href={href(to())}>To the overview of {namespace.value}</a>
        </Empty>
      )}
    </Shell>
  );
}

keepSettings();
onAnswered((space) => {
  if (parts.value[0] === "n" && parts.value[1] === space) lastNamespace.value = space;
});
followAddress();
watchSession();
watchVisibility();
listenToKeys();
runClock();
runWatch();
const asked = session.peek() ? Promise.resolve() : loadSession();
asked.then(
  () => {
    if (signedIn.peek()) askAhead(parts.peek());
  },
  () => undefined, // the page tells it
);
// Drawn once the page is there: each time that less is drawn first costs as much as the page.
void loadAhead(parts.value).then(() => render(<App />, document.getElementById("app")!));
