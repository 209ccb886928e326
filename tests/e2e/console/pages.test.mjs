// Every page against a real server: it shows what is there, complains of nothing, and axe finds nothing.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import path from "node:path";
import {
  close,
  closeBrowser,
  cutOff,
  done,
  faults,
  faultsOfColours,
  machine,
  openBrowser,
  openPage,
  REPOSITORY,
  Server,
  settled,
  sidewise,
} from "./support.mjs";

const HOSTILE = 'evil\u202egpj.exe"><img src=x onerror=alert(1)>';
const HOSTILE_ID = 'evil.exe"><img/src=x/onerror=alert(1)>'; // an id is printable ASCII without spaces
let server;

before(async () => {
  server = await Server.start();
  await server.define(machine("order"));
  await server.define(machine("deploy"));
  await server.define(machine("crawler"));
  for (let i = 0; i < 5; ++i)
    await server.start(
      "order",
      `order-${i}`,
      { item: "apple", quantity: i + 1, price: 1.5 },
      { labels: { site: i % 2 ? "eu" : "us" } },
    );
  await server.work("order");
  await server.work("order", "large");
  await server.work("order", "error", { error: HOSTILE });
  await server.claim("order");
  await server.start(
    "deploy",
    "42-prod",
    { release: "/srv/42", env: "prod", root: "/srv/app" },
    { group: "42" },
  );
  await server.work("deploy", "ok", { output: { same: false, live: "/srv/41" } });
  await server.work("deploy", "error", { error: "no space left" });
});

after(async () => {
  await closeBrowser();
  await server?.stop();
});

const PAGES = [
  ["/n/default", "Overview"],
  ["/n/default/instances", "order-0"],
  ["/n/default/instances?q=machine:order&cols=label,state,worker,parent,labels,progress,error", "order-0"],
  ["/n/default/instances/order-0", "reserve"],
  ["/n/default/instances/order-0?node=charge", "order.charge"],
  ["/n/default/instances/order-0?tab=timeline", "on the critical path"],
  ["/n/default/instances/order-0?tab=history", "transitioned"],
  ["/n/default/instances/order-0?tab=data", "apple"],
  ["/n/default/instances/order-0?tab=logs", "No lines."],
  ["/n/default/instances/order-0?tab=children", "No children."],
  ["/n/default/instances/42-prod", "release.copy"],
  ["/n/default/instances/42-prod?node=copy", "release.copy"],
  ["/n/default/instances/42-prod?tab=graph", "compare"],
  ["/n/default/machines", "crawler"],
  ["/n/default/machines/order?node=charge", "order.charge"],
  ["/n/default/machines/order?tab=source", "An order in a shop"],
  ["/n/default/machines/order?tab=compare", "one version so far"],
  ["/n/default/machines/deploy", "rollback"],
  ["/n/default/machines/deploy?as=nodes", "compare"],
  ["/n/default/define?machine=order", "unchanged"],
  ["/n/default/queues", "Queues"],
  ["/n/default/workers", "Workers"],
  ["/n/default/workers?tab=agents", "No agent is connected"],
  ["/n/default/schedules", "No schedules yet"],
  ["/n/default/schedules?tab=calendar", "No schedules yet"],
  ["/n/default/triggers", "No triggers yet"],
  ["/n/default/limits?name=env%2Fprod", "env/prod"],
  ["/n/default/groups?name=42", "42"],
  ["/n/default/packages", "No packages yet"],
  ["/n/default/feed", "Waiting for something to happen"],
  ["/n/default/bulks", "There has been none"],
  ["/access", "asks nobody"],
  ["/access?tab=secrets", "No secrets here"],
  ["/namespaces", "default"],
  ["/settings", "Theme"],
  ["/n/empty", "Nothing is defined here yet"],
  ["/n/empty/instances", "No instances yet"],
  ["/n/default/nothing", "There is no such page"],
  ["/n/default/instances/nobody", "All instances"],
];

// SCREENSHOTS=FOLDER, for people: each page as PNG, and the picture that README.md shows.
const SCREENSHOTS = process.env.SCREENSHOTS;
const PICTURED = "/n/default/instances/order-0";

// Pages of one size share what the browser keeps of their scripts.
const contexts = new Map();
async function contextOf(width, height) {
  const browser = await openBrowser();
  if (!contexts.has(width)) {
    contexts.set(width, await browser.newContext({ viewport: { width, height }, colorScheme: "light" }));
  }
  return contexts.get(width);
}

async function picture(page, name) {
  if (!SCREENSHOTS) return;
  const file = name.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "");
  await page.screenshot({ path: path.join(SCREENSHOTS, `${file}.png`) });
  if (name !== `${PICTURED} light 1024`) return;
  await page.screenshot({ path: path.join(REPOSITORY, "dsrv/console/instance.png") });
}

async function shown(page, url, text) {
  await page.getByText(text, { exact: false }).first().waitFor({ state: "attached" });
  if (url.includes("define")) await page.locator(".cm-content").waitFor();
  await settled(page);
}

async function fits(page) {
  assert.equal(await sidewise(page), 0, "it scrolls sideways");
  assert.deepEqual(await cutOff(page), [], "lists scroll sideways");
}

// All run under their content security policy.
for (const [url, text] of PAGES) {
  test(`${url} light and dark`, async () => {
    const page = await openPage(server, url, { context: await contextOf(1024, 768) });
    await shown(page, url, text);
    await picture(page, `${url} light 1024`);
    assert.deepEqual(await faults(page), []);
    await fits(page);
    await page.emulateMedia({ colorScheme: "dark" }); // which changes colours, and nothing else
    await page.waitForFunction(() => document.getAnimations().length === 0);
    await picture(page, `${url} dark 1024`);
    assert.deepEqual(await faultsOfColours(page), []);
    await fits(page);
    await close(page);
  });
  test(`${url} narrow`, async () => {
    const page = await openPage(server, url, { context: await contextOf(360, 640) });
    await shown(page, url, text);
    await picture(page, `${url} light 360`);
    assert.deepEqual(await faults(page), []);
    await fits(page);
    await close(page);
  });
}

test("no list is cut off at 1280, with a row open or not", async () => {
  const page = await openPage(server, "/settings", { width: 1280 });
  for (const url of [
    "/n/default/instances",
    "/n/default/machines",
    "/n/default/machines/order?node=charge",
    "/n/default/queues",
    "/n/default/workers",
    "/n/default/groups?name=42",
    "/n/default/limits?name=env%2Fprod",
    "/n/default/instances/42-prod?node=copy",
    "/namespaces",
  ]) {
    await page.goto(server.base + url);
    await page.locator(".list tbody tr").first().waitFor();
    await settled(page);
    assert.deepEqual(await cutOff(page), [], url);
    const last = page.locator(".list tr:has(button:text-matches('Start|Freeze')) td:last-child").first();
    if (/machines$|namespaces$/.test(url)) await last.waitFor();
  }
  await done(page);
});

test("a list whose cells grow leaves out columns, and is not cut off", async () => {
  const page = await openPage(server, "/n/default/instances/42-prod", { width: 1024 });
  await page.locator(".list tbody tr").first().waitFor();
  await settled(page);
  const heads = await page.locator(".list th").count();
  await page.evaluate(() => {
    const wide = document.createElement("span");
    wide.style.cssText = "display: inline-block; width: 300px";
    document.querySelector(".list tbody td").append(wide);
  });
  await page.waitForFunction((before) => document.querySelectorAll(".list th").length < before, heads);
  assert.deepEqual(await cutOff(page), []);
  await done(page);
});

test("hostile texts are shown as text", async () => {
  await server.start(
    "order",
    HOSTILE_ID,
    { item: "<b>x</b>\u202e", quantity: 1, price: 1 },
    { labels: { note: HOSTILE } },
  );
  const page = await openPage(server, `/n/default/instances/${encodeURIComponent(HOSTILE_ID)}?tab=data`);
  await page.getByRole("heading", { level: 1 }).getByText(HOSTILE_ID).waitFor();
  await page.locator("pre", { hasText: "<b>x</b>\\u{202e}" }).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  await page.getByRole("tab", { name: "History" }).click();
  await page.getByRole("table", { name: "History" }).getByText("started").waitFor();
  await page.goto(`${server.base}/n/default/instances`);
  await page.getByRole("link", { name: HOSTILE_ID }).click();
  await page.getByRole("heading", { level: 1 }).getByText(HOSTILE_ID).waitFor();
  await done(page);
});
