// Who is signed in, and what they may do.
import { computed, signal } from "@preact/signals";
import { base } from "../api/base";
import { onSignedOut } from "../api/call";
import { refusalOf, unreached } from "../api/refusal";
import type { AccessToken_RoleJson, AccessTokenJson } from "../api/types";

export type Role = "VIEWER" | "WORKER" | "OPERATOR" | "ADMIN";
interface Session extends AccessTokenJson {
  auth?: string;
}

// What the page says of it: a server that asks nobody puts "off" there, and need not be asked.
function authOfPage(): Session | undefined {
  if (typeof document === "undefined") return undefined;
  const auth = document.querySelector<HTMLMetaElement>('meta[name="dfsmr-auth"]')?.content;
  return auth === "off" ? { auth } : undefined;
}

// Undefined: not known yet. {auth: "off"}: nobody is asked. {auth: "tokens"}: nobody is signed in.
export const session = signal<Session | undefined>(authOfPage());
// A session has ended under the page: a dialog asks for a token, and what was typed stays.
export const ended = signal(false);
// Goes up with each sign-in: what is on the page is asked for again.
export const signIns = signal(0);

export const authOff = computed(() => session.value?.auth === "off");
export const signedIn = computed(() => authOff.value || !!session.value?.id);
// The one namespace that the token is for; undefined: it is for all.
export const ownNamespace = computed(() => {
  const space = session.value?.id ? session.value.namespace : undefined;
  return space === "*" ? undefined : space;
});
export const role = computed<Role | undefined>(() =>
  authOff.value ? "ADMIN" : (session.value?.role as Role | undefined),
);

const RANK: Record<Role, number> = { VIEWER: 0, WORKER: 1, OPERATOR: 2, ADMIN: 3 };

export function may(needed: Role, space?: string): boolean {
  const own = role.value;
  if (!own) return false;
  if (space === "*" && !authOff.value && session.value?.namespace !== "*") return false;
  return RANK[own] >= RANK[needed];
}

async function ask(method: string, body?: unknown): Promise<Session> {
  const response = await fetch(`${base}/v1/session`, {
    method,
    ...(body === undefined
      ? {}
      : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  }).catch(() => {
    throw unreached();
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw refusalOf(answer, response.status);
  return answer;
}

export async function loadSession(): Promise<void> {
  session.value = await ask("GET");
}

export async function signIn(token: string, wanted?: AccessToken_RoleJson): Promise<void> {
  session.value = await ask("POST", { token, ...(wanted ? { role: wanted } : {}) });
  ended.value = false;
  ++signIns.value;
}

export async function signOut(): Promise<void> {
  await ask("DELETE");
  session.value = { auth: "tokens" };
}

export function watchSession(): void {
  onSignedOut(() => {
    if (session.value?.id) ended.value = true;
    else session.value = { auth: "tokens" };
  });
}
