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

async function commands(page) {
  const dialog = page.getByRole("dialog");
  await dialog.getByText("The same as a command").click();
  return dialog.locator(".command code").allInnerTexts();
}

test("an id that begins as a flag does is none for dcli", async () => {
  await server.start("order", "-x", ORDER);
  const page = await openPage(server, "/n/default/instances/-x");
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  assert.equal((await commands(page))[0], "dcli pause -- -x");
  await done(page);
});

test("a bulk transition says all of itself as a command; a preview tells of ids that are not there", async () => {
  await server.start("order", "bulk-1", ORDER);
  await server.start("order", "bulk-2", ORDER);
  const page = await openPage(server, "/n/default/instances?q=bulk-");
  await page.getByLabel("Select bulk-1").check();
  await page.getByLabel("Select bulk-2").check();
  await page.getByRole("button", { name: "Transition …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Transition", { exact: true }).fill("ok");
  await dialog.getByLabel("Params for the next node").fill('{"a": 1}');
  assert.match(
    (await commands(page))[0],
    /^dcli transition ok --filter id:bulk-\d,bulk-\d --params '\{"a": 1\}'/,
  );
  await page.route("**/StartBulk", (route) => {
    const request = JSON.parse(route.request().postData());
    route.continue({ postData: JSON.stringify({ ...request, instances: ["bulk-1", "gone-since"] }) });
  });
  await dialog.getByRole("button", { name: "Preview" }).click();
  await dialog.getByText("of the selected is not there any more").waitFor();
  await done(page);
});

test("what is typed after Ctrl-K is no filter, and is never refused", async () => {
  await server.start("order", "urn:1", ORDER);
  await server.start("order", "machine:order", ORDER);
  await server.start("order", "-y", ORDER);
  const page = await openPage(server, "/n/default");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const refused = [];
  page.on("response", (response) => response.status() >= 400 && refused.push(response.url()));
  for (const id of ["urn:1", "machine:order", "-y"]) {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill(id);
    await page.getByRole("option", { name: `${id} instance` }).waitFor();
    await page.keyboard.press("Escape");
  }
  assert.deepEqual(refused, []);
  await done(page);
});

test("a namespace that cannot be is told, and not remembered", async () => {
  const page = await openPage(server, "/n/default");
  await page.locator(".tile").first().waitFor();
  for (const url of ["/n/%3Cb%3Ex", "/n/%3Cb%3Ex/queues", "/n/%3Cb%3Ex/workers", "/n/%3Cb%3Ex/instances/a"]) {
    await page.goto(server.base + url);
    await page.getByRole("alert").getByText("namespace name").first().waitFor();
    assert.equal(await page.getByText("Loading").count(), 0, url);
  }
  await page.goto(server.base);
  await page.waitForURL(/\/n\/default$/);
  await done(page);
});

test("what is not there is a page with a head", async () => {
  const page = await openPage(server, "/n/default/instances/nobody");
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.goto(`${server.base}/n/default/nothing`);
  await page.getByRole("heading", { level: 1, name: "There is no such page." }).waitFor();
  await done(page);
});

test("all columns but the id may be left out; views are saved and forgotten", async () => {
  const page = await openPage(server, "/n/default/instances?cols=label");
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByLabel("Label", { exact: true }).uncheck();
  await page.waitForURL(/cols=id/);
  assert.equal(await page.getByRole("columnheader").count(), 2); // the boxes, and the id
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("button", { name: "Save this one …" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("mine");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("button", { name: "Forget mine" }).click();
  await page.getByText("None are saved yet").waitFor();
  await done(page);
});

test("a filter that is refused offers nothing to change", async () => {
  const page = await openPage(server, "/n/default/instances?q=nod:x");
  await page.getByRole("alert").getByText("node").waitFor();
  assert.equal(await page.getByText("Change all that match").count(), 0);
  assert.equal(await page.locator("main .panel").count(), 0);
  await done(page);
});

test("keys of other pages are in the help, and [ ] go from visit to visit", async () => {
  await server.start("order", "visited", ORDER);
  await server.call("Transition", { instance: "visited", node: "reserve", transition: "ok" });
  const page = await openPage(server, "/n/default");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).getByText("visit before").waitFor();
  await page.goto(`${server.base}/n/default/instances/visited`);
  await page.locator("svg.drawing").waitFor();
  await page.keyboard.press("[");
  await page.waitForURL(/node=charge/);
  await page.keyboard.press("[");
  await page.waitForURL(/node=reserve/);
  await page.keyboard.press("]");
  await page.waitForURL(/node=charge/);
  await done(page);
});

test("what was typed on Define is there again; replacing all of it keeps to the policy", async () => {
  const page = await openPage(server, "/n/default/define");
  const text = page.locator(".cm-content");
  await text.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText("id: typed\nnodes:\n  a: {start: true, final: true}\n");
  await page.getByText("Typed, and not defined").waitFor();
  await page.getByRole("link", { name: "Queues" }).click();
  await page.getByRole("heading", { level: 1, name: "Queues" }).waitFor();
  await page.goBack();
  await text.getByText("typed").first().waitFor();
  await page.getByRole("button", { name: "Discard it" }).click();
  await text.getByText("hello").waitFor();
  await done(page);
});

const MANY = `action: many.do
---
plan: many
params: {type: object}
flow:
  - for_each: "\${params.items}"
    as: one
    do: {step: each, action: many.do, input: {of: "\${one}"}}
`;

test("a large plan is drawn by the counts of its groups; its nodes are not asked for", async () => {
  await server.define(MANY);
  await server.start("many", "large", JSON.stringify({ items: Array.from({ length: 3000 }, (_, i) => i) }));
  await eventually("the plan", async () => (await server.get("large")).state === "RUNNING");
  const page = await openPage(server, "/n/default/machines");
  await page.getByRole("link", { name: "many", exact: true }).waitFor();
  const asked = [];
  page.on("request", (request) => {
    if (/GetInstance|Watch/.test(request.url())) asked.push(request.postData() ?? "");
  });
  await page.goto(`${server.base}/n/default/instances/large?tab=graph`);
  await page.getByRole("table", { name: "Steps" }).getByText("3,000 steps").waitFor();
  await page
    .getByRole("table", { name: "Steps" })
    .getByText(/ready|pending/)
    .first()
    .waitFor();
  await page.getByRole("button", { name: /each/ }).first().click();
  await page.getByRole("button", { name: "each.17", exact: true }).waitFor();
  assert.ok(!asked.some((text) => text.includes("withNodes")), "all nodes were asked for");
  await done(page);
});

test("what a stopped instance left undone goes on no longer", async () => {
  // Before whatever other tests have left to be done.
  const params = { release: "/srv/44", env: "prod", root: "/srv/app" };
  await server.start("deploy", "44-prod", params, { priority: 1_000 });
  const task = await server.work("deploy", "ok", { output: { same: false, live: "/srv/41" } });
  const id = task.instance;
  await server.work("deploy", "error", { error: "no space left" });
  await server.call("Cancel", { instance: id, mode: "FORCE" });
  const page = await openPage(server, `/n/default/instances/${id}`);
  const took = page.getByRole("table", { name: "Steps" }).locator("td.c-took");
  await took.first().waitFor();
  const before = await took.allInnerTexts();
  const seen = await page.locator("time").first().innerText();
  await page.waitForFunction((text) => document.querySelector("time").innerText !== text, seen); // the clock went on
  assert.deepEqual(await took.allInnerTexts(), before);
  await done(page);
});

test("much is drawn in portions, and wholly in the end", async () => {
  const nodes = Array.from({ length: 200 }, (_, i) => `  n${i}: {${i ? "" : "start: true, "}transitions: {ok: n${i + 1}}}`);
  await server.define(["id: rope", "nodes:", ...nodes, "  n200: {final: true}", ""].join("\n"));
  const page = await openPage(server, "/n/default/machines/rope");
  await page.locator("svg.drawing[aria-busy=false]").waitFor();
  assert.equal(await page.locator("svg.drawing .box").count(), 201);
  assert.equal(await page.locator("svg.drawing .edge").count(), 200);
  const rows = page.locator('table[aria-label="Nodes"] tbody tr:not(.space)');
  await eventually("a window of rows", async () => (await rows.count()) === 120);
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.at), "0");
  await done(page);
});
