// What this browser prefers: the only thing that the console stores.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export type Times = "ago" | "local" | "utc";
export interface View {
  name: string;
  query: string;
}
interface Settings {
  theme: Theme;
  times: Times;
  keys: boolean;
  namespace: string;
  views: View[];
}

const NAME = "dfsmr";

function stored(): Partial<Settings> {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? "{}");
  } catch {
    return {}; // no storage, or not ours: the defaults do
  }
}

const kept = stored();
export const theme = signal<Theme>(kept.theme ?? "system");
export const times = signal<Times>(kept.times ?? "ago");
export const keysOn = signal(kept.keys ?? true);
export const lastNamespace = signal(kept.namespace ?? "default");
export const views = signal<View[]>(kept.views ?? []);

export function keepSettings(): void {
  effect(() => {
    const settings: Settings = {
      theme: theme.value,
      times: times.value,
      keys: keysOn.value,
      namespace: lastNamespace.value,
      views: views.value,
    };
    try {
      localStorage.setItem(NAME, JSON.stringify(settings));
    } catch {
      // without storage they last as long as the page
    }
  });
  effect(() => {
    document.documentElement.dataset["theme"] = theme.value;
  });
}
