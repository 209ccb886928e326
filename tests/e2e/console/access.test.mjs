// Who may do what on the pages: signing in and out, roles, sessions that end under a page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ADMIN, closeBrowser, done, guarded, machine, openPage } from "./support.mjs";

const TOKENS = { service: "TokenService" };
let server;

before(async () => {
  server = await guarded();
  await server.define(machine("order"));
  await server.start("order", "one", { item: "apple", quantity: 1, price: 1 });
});

after(async () => {
  await closeBrowser();
  await server?.stop();
});

async function tokenOf(role) {
  return server.call("CreateToken", { role, name: role.toLowerCase() }, TOKENS);
}

async function signedIn(token, url) {
  const page = await openPage(server, url);
  await page.getByLabel("Token", { exact: true }).fill(token);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  return page;
}

test("who is not signed in is asked, and then gets where they wanted to go", async () => {
  const page = await openPage(server, "/n/default/instances/one?tab=data");
  await page.waitForURL(/\/signin\?next=/);
  await page.getByLabel("Token", { exact: true }).fill("wrong");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("alert").getByText("BAD_TOKEN").waitFor();
  await page.getByLabel("Token", { exact: true }).fill(ADMIN);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL(/\/instances\/one\?tab=data/);
  await page.locator("pre", { hasText: "apple" }).waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "", "a script can read the session");
  assert.doesNotMatch(await page.evaluate(() => JSON.stringify(localStorage)), /the-first-admin/);
  await page.goto(`${server.base}/settings`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/\/signin/);
  await done(page);
});

test("a viewer sees actions, greyed, with the role that they take", async () => {
  const { secret } = await tokenOf("VIEWER");
  const page = await signedIn(secret, "/n/default/instances/one");
  const pause = page.getByRole("button", { name: "Pause" });
  await pause.waitFor();
  assert.equal(await pause.getAttribute("aria-disabled"), "true");
  assert.equal(await pause.getAttribute("title"), "takes the role operator");
  await pause.click({ force: true });
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.equal((await server.get("one")).state, "RUNNING");
  await page.goto(`${server.base}/access`);
  await page.getByText("Tokens are an admin's.").waitFor();
  await done(page);
});

test("an operator may act, and an admin signed in as a viewer may not", async () => {
  const { secret } = await tokenOf("OPERATOR");
  const page = await signedIn(secret, "/n/default/instances/one");
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause", exact: true }).click();
  await page.locator(".above .state", { hasText: "paused" }).waitFor();
  await done(page);
  const reading = await openPage(server, "/signin?as=viewer&next=/settings");
  await reading.getByLabel("Token", { exact: true }).fill(ADMIN);
  await reading.getByRole("button", { name: "Sign in", exact: true }).click();
  await reading.waitForURL(/\/settings/);
  await reading.getByText("viewer", { exact: true }).first().waitFor();
  await done(reading);
});

test("tokens are made, shown once, and revoked", async () => {
  const page = await signedIn(ADMIN, "/access");
  await page.getByRole("button", { name: "Create a token …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Role").selectOption("WORKER");
  await dialog.getByLabel("What it is for").fill("the night shift");
  await dialog.getByLabel("only these machines").fill("order crawler");
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await dialog.getByText("It is not shown again").waitFor();
  const secret = await dialog.locator(".command code").first().innerText();
  const caller = await server.call("GetCaller", {}, { ...TOKENS, token: secret });
  assert.deepEqual([caller.role, caller.machines], ["WORKER", ["order", "crawler"]]);
  await dialog.getByRole("button", { name: "Close" }).last().click();
  const row = page.getByRole("row", { name: /the night shift/ });
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke", exact: true }).click();
  await row.waitFor({ state: "detached" });
  await assert.rejects(server.call("GetCaller", {}, { ...TOKENS, token: secret }));
  await done(page);
});

test("a session that ends under a page is renewed in a dialog; what was typed stays", async () => {
  const { secret, token } = await tokenOf("OPERATOR");
  const page = await signedIn(secret, "/n/default/instances/one");
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("typed before");
  await server.call("RevokeToken", { id: token.id }, TOKENS);
  const again = page.getByRole("dialog", { name: "The session has ended" });
  await again.waitFor();
  await again.getByLabel("Token", { exact: true }).fill(ADMIN);
  await again.getByRole("button", { name: "Go on" }).click();
  await again.waitFor({ state: "detached" });
  assert.equal(await page.getByRole("dialog").getByLabel("Reason").inputValue(), "typed before");
  await done(page);
});

test("what a token may not see is refused with the server's message, and not remembered", async () => {
  await server.call("CreateNamespace", { name: "other" }, { service: "NamespaceService" });
  const { secret } = await server.call("CreateToken", { role: "VIEWER", namespace: "default" }, TOKENS);
  const page = await signedIn(secret, "/n/default");
  await page.locator(".tile").first().waitFor();
  for (const url of ["", "/queues", "/workers", "/machines/job", "/instances/x", "/instances"]) {
    await page.goto(`${server.base}/n/other${url}`);
    await page.getByRole("alert").getByText("NOT_ALLOWED").first().waitFor();
    assert.equal(await page.getByText("Loading").count(), 0, url);
    const asked = [];
    page.on("request", (request) => request.url().includes("Watch") && asked.push(request.url()));
    await page.getByRole("button", { name: "Live" }).waitFor();
    assert.deepEqual(asked, [], "it is tried again");
  }
  await page.goto(server.base);
  await page.waitForURL(/\/n\/default$/);
  await done(page);
});

test("signing in leads to no other place, and tells a person what is wrong", async () => {
  const page = await openPage(server, `/signin?next=${encodeURIComponent("/\\evil.test")}`);
  await page.getByLabel("Token", { exact: true }).fill("wrong");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("alert").getByText("This token is not valid").waitFor();
  await page.getByLabel("Token", { exact: true }).fill(ADMIN);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL(/\/n\/default$/);
  await done(page);
});
