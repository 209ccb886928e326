// What people do on the pages: actions and refusals, keys, live updates, what an address holds.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, done, eventually, machine, openPage, Server } from "./support.mjs";

let server;

before(async () => {
  server = await Server.start();
  await server.define(machine("order"));
  await server.define(machine("deploy"));
});

after(async () => {
  await closeBrowser();
  await server?.stop();
});

const ORDER = { item: "apple", quantity: 1, price: 1.5 };

async function act(page, button, verb = button, reason) {
  await page.getByRole("button", { name: button, exact: true }).first().click();
  const dialog = page.getByRole("dialog");
  if (reason) await dialog.getByLabel("Reason").fill(reason);
  await dialog.getByRole("button", { name: verb, exact: true }).click();
}

test("an instance is started by a form of its machine's params, and not twice", async () => {
  const page = await openPage(server, "/n/default/machines/order");
  await page.getByRole("button", { name: "Start …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("item").fill("pear");
  await dialog.getByLabel("quantity").fill("two");
  await dialog.getByText("It must be a whole number.").waitFor();
  await dialog.getByLabel("quantity").fill("2");
  await dialog.getByLabel("price").fill("12345678901234567890.10");
  await dialog.getByText("Id, labels, priority, when").click();
  await dialog.getByLabel("Id", { exact: true }).fill("by-form");
  await dialog.getByText("The same as a command").click();
  await dialog.getByText("dcli start order --id by-form").waitFor();
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "by-form" }).waitFor();
  const started = await server.get("by-form");
  assert.match(started.params, /12345678901234567890\.10/);
  await done(page);
});

test("pause, resume and cancel, each with its reason; buttons follow the state", async () => {
  await server.start("order", "steered", ORDER);
  const page = await openPage(server, "/n/default/instances/steered");
  await act(page, "Pause", "Pause", "the shop is closed");
  await page.locator(".above .state", { hasText: "paused" }).waitFor();
  assert.equal((await server.get("steered")).state, "PAUSED");
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor({ state: "detached" });
  await act(page, "Resume");
  await page.locator(".above .state", { hasText: "running" }).waitFor();
  await act(page, "Cancel");
  await page.locator(".above .state", { hasText: "cancelled" }).waitFor();
  assert.equal((await server.get("steered")).result, "CANCELLED");
  await done(page);
});

test("a transition by hand moves it, and a refusal is shown", async () => {
  await server.start("order", "by-hand", ORDER);
  const page = await openPage(server, "/n/default/instances/by-hand");
  await act(page, "large", "Move");
  await page.locator(".standing").getByText("approve").first().waitFor();
  await page.getByRole("button", { name: "reject", exact: true }).first().click();
  await server.call("Cancel", { instance: "by-hand" });
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Move", exact: true }).click();
  await dialog.getByRole("alert").getByText("INSTANCE_STOPPED").waitFor();
  await done(page);
});

test("what is not known yet comes live, within seconds, and not while it is stopped", async () => {
  await server.start("order", "watched", ORDER);
  const page = await openPage(server, "/n/default/instances/watched");
  await page.locator(".standing").getByText("reserve").first().waitFor();
  await server.call("Transition", { instance: "watched", node: "reserve", transition: "ok" });
  await page.locator(".standing").getByText("charge").first().waitFor();
  await page.keyboard.press(".");
  await page.getByRole("button", { name: "Stopped" }).waitFor();
  const asked = [];
  page.on("request", (request) => request.method() === "POST" && asked.push(request.url()));
  await server.call("Pause", { instance: "watched" });
  await page.getByRole("tab", { name: "Data" }).click();
  assert.equal(await page.locator(".above .state", { hasText: "paused" }).count(), 0);
  assert.deepEqual(asked, [], "something was fetched by itself");
  await page.keyboard.press(".");
  await page.locator(".above .state", { hasText: "paused" }).waitFor();
  await done(page);
});

test("an address opens a step of a plan", async () => {
  await server.start("deploy", "43-stage", { release: "/srv/43", env: "stage", root: "/srv/app" });
  await server.work("deploy", "ok", { output: { same: false, live: "/srv/42" } });
  const page = await openPage(server, "/n/default/instances/43-stage?node=copy");
  await page.getByRole("table", { name: "Steps" }).getByText("copy").first().waitFor();
  await page.getByRole("heading", { name: "copy" }).waitFor();
  await done(page);
});

test("the address holds filter, order, columns and tab; Back undoes them", async () => {
  const page = await openPage(server, "/n/default/instances?q=machine:order&order=id&cols=state,labels");
  await page.getByRole("columnheader", { name: "Labels" }).waitFor();
  assert.equal(await page.getByRole("columnheader", { name: "Error" }).count(), 0);
  assert.equal(await page.getByLabel("Order").inputValue(), "id");
  await page.keyboard.press("/");
  await page.keyboard.type("machine:deploy");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=machine%3Adeploy/);
  await page.goBack();
  await page.waitForURL(/q=machine:order/);
  await eventually("the filter before", async () => {
    return (await page.getByLabel("Filter", { exact: true }).inputValue()) === "machine:order";
  });
  await page.getByLabel("Filter", { exact: true }).fill("nod:x");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("node").waitFor();
  await done(page);
});

test("keys: pages, rows, selection, help, and going to anything", async () => {
  const page = await openPage(server, "/n/default");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("i");
  await page.getByRole("link", { name: "watched" }).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByRole("group", { name: "Selection" }).getByText("1 instance").waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/instances\/.+/);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).getByText("live on and off").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("steer");
  await page.getByRole("option", { name: /steered/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(/instances\/steered/);
  await done(page);
});

test("the feed tails; paused it goes on where it stood", async () => {
  const page = await openPage(server, "/n/default/feed?machine=order");
  await page.getByText("Waiting for something to happen").waitFor();
  await eventually("a record", async () => {
    await server.start("order", `fed-${Date.now()}`, ORDER);
    return (await page.getByRole("table", { name: "Feed" }).count()) > 0;
  });
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await server.start("order", "fed-meanwhile", ORDER);
  assert.equal(await page.getByText("fed-meanwhile").count(), 0);
  await page.getByRole("button", { name: "Resume where it stood" }).click();
  await page.getByRole("link", { name: "fed-meanwhile" }).waitFor();
  await done(page);
});

test("a server that is lost is told, and found again", async () => {
  const own = await Server.start();
  try {
    await own.define(machine("order"));
    await own.start("order", "kept", ORDER);
    const page = await openPage(own, "/n/default/instances/kept");
    await page.locator(".standing").getByText("reserve").first().waitFor();
    await own.kill();
    await page.getByRole("button", { name: "Lost" }).waitFor();
    await page.getByText("What is shown is from").waitFor();
    await own.run();
    await page.getByRole("button", { name: "Live" }).waitFor();
    await done(page);
  } finally {
    await own.stop();
  }
});
