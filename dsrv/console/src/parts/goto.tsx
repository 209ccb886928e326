// Ctrl-K: goes to a page, machine, instance, schedule or package by its name.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { call } from "../api/call";
import { go, namespace, to } from "../state/route";
import { PAGES } from "../pages/pages";
import { bareWord } from "../text/filter";
import { Dialog } from "./dialog";
import { pageUrl } from "./shell";
import { Id } from "./text";

const shown = signal(false);

export function openGoTo(): void {
  shown.value = true;
}

export function GoTo() {
  return shown.value ? (
    <Finder
      close={() => {
        shown.value = false;
      }}
    />
  ) : null;
}

interface Place {
  kind: string;
  name: string;
  url: string;
}

function pagesLike(text: string): Place[] {
  return PAGES.filter((page) => page.title.toLowerCase().includes(text)).map((page) => ({
    kind: "page",
    name: page.title,
    url: pageUrl(page),
  }));
}

// Whether an instance's id may begin so: the server is not asked what it would refuse.
function mayBeId(text: string): boolean {
  return /^[!-~]{1,256}$/.test(text);
}

// Every source may fail alone: the others are shown.
async function placesLike(text: string): Promise<Place[]> {
  const space = namespace.value;
  const like = (name: string | undefined) => !!name && name.toLowerCase().includes(text.toLowerCase());
  const sources = [
    call("RunnerService", "ListMachines", { namespace: space, pageSize: 1000 }).then((reply) =>
      (reply.machines ?? [])
        .filter((machine) => like(machine.id))
        .map((machine) => ({
          kind: machine.kind ?? "machine",
          name: machine.id!,
          url: to("machines", machine.id!),
        })),
    ),
    !mayBeId(text)
      ? Promise.resolve([])
      : call("RunnerService", "ListInstances", {
          namespace: space,
          filter: bareWord(text),
          brief: true,
          pageSize: 8,
        }).then((reply) =>
          (reply.instances ?? []).map((one) => ({
            kind: "instance",
            name: one.id!,
            url: to("instances", one.id!),
          })),
        ),
    call("ScheduleService", "ListSchedules", { namespace: space, pageSize: 1000 }).then((reply) =>
      (reply.schedules ?? [])
        .filter((one) => like(one.name))
        .map((one) => ({ kind: "schedule", name: one.name!, url: to("schedules", { name: one.name! }) })),
    ),
    call("PackageService", "ListPackages", { namespace: space }).then((reply) =>
      (reply.packages ?? [])
        .filter((one) => like(one.package))
        .map((one) => ({ kind: "package", name: one.package!, url: to("packages", { name: one.package! }) })),
    ),
  ];
  const found = await Promise.allSettled(sources);
  return found.flatMap((one) => (one.status === "fulfilled" ? one.value.slice(0, 8) : []));
}

function Finder({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Place[]>([]);
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  // Before the next key arrives: a letter typed after Ctrl-K is not lost.
  useLayoutEffect(() => input.current?.focus(), []);
  useEffect(() => {
    setAt(0);
    const wanted = text.trim();
    if (wanted === "") {
      setFound([]);
      return undefined;
    }
    let stale = false;
    const timer = setTimeout(
      () =>
        void placesLike(wanted).then((places) => {
          if (!stale) setFound(places);
        }),
      150,
    );
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [text]);
  const places = [...pagesLike(text.trim().toLowerCase()), ...found];
  const open = (place: Place | undefined) => {
    if (!place) return;
    close();
    go(place.url);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, places.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") open(places[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to" close={close}>
      <input
        ref={input}
        class="find"
        value={text}
        placeholder="A page, a machine, or what an instance's id begins with"
        role="combobox"
        aria-expanded="true"
        aria-controls="places"
        aria-label="Name or id"
        autocomplete="off"
        aria-activedescendant={places[at] ? `place-${at}` : undefined}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={pressed}
      />
      <ul id="places" class="places" role="listbox" aria-label="Places">
        {places.map((place, i) => (
          <li
            key={place.url}
            id={`place-${i}`}
            role="option"
            aria-selected={i === at}
            onClick={() => open(place)}
          >
            <Id of={place.name} />
            <span class="quiet">{place.kind}</span>
          </li>
        ))}
      </ul>
      {places.length === 0 && <p class="quiet">Nothing here has this name, and no id begins so.</p>}
    </Dialog>
  );
}
