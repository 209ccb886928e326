// What console.md promises in figures that are no times; tests/bench/console measures all of them.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import zlib from "node:zlib";
import { closeBrowser, done, eventually, openPage, REPOSITORY, Server } from "./support.mjs";

const DIST = path.join(REPOSITORY, "dsrv/console/dist");
const RECORDS = 2_000;
const TURN = "id: turn\nnodes: {one: {start: true, transitions: {on: one, end: done}}, done: {final: true}}\n";
const PLAN = `\
action: step
---
plan: fleet
flow:
  - concurrence:
      for_each: "\${params.groups}"
      as: group
      do:
        concurrence:
          for_each: "\${group.hosts}"
          as: host
          do: {step: update, action: step, input: {host: "\${host}"}}
`;
let server;

before(async () => {
  server = await Server.start();
  await server.define(TURN);
  await server.define(PLAN);
  await server.start("turn", "long");
  for (let i = 0; i < RECORDS; i += 500)
    await server.call("Report", {
      transitions: Array.from({ length: 500 }, () => ({ instance: "long", transition: "on" })),
    });
  const hosts = Array.from({ length: 300 }, (_, i) => i);
  await server.start("fleet", "fleet", { groups: [{ hosts }, { hosts }] });
});

after(async () => {
  await closeBrowser();
  await server?.stop();
});

function gzipped(names) {
  return names.reduce((sum, name) => sum + zlib.gzipSync(fs.readFileSync(path.join(DIST, name))).length, 0);
}

test("all pages weigh at most 300 KB, the first one 60", async () => {
  assert.ok(gzipped(fs.readdirSync(DIST)) <= 300_000);
  const page = await openPage(server, "/n/default");
  await page.locator(".tiles .tile").first().waitFor();
  const loaded = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .map(({ name }) => new URL(name).pathname)
      .filter((name) => name.startsWith("/assets/")),
  );
  assert.ok(gzipped(["index.html", ...loaded.map((name) => path.basename(name))]) <= 60_000);
  await done(page);
});

test("of a long history a window is in the document, however far it is scrolled", async () => {
  const page = await openPage(server, "/n/default/instances/long?tab=history");
  const rows = page.locator('table[aria-label="History"] tbody tr');
  await rows.first().waitFor();
  const table = page.getByRole("table", { name: "History" });
  await eventually("a thousand records", async () => {
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    assert.ok((await rows.count()) <= 200);
    return Number(await table.getAttribute("aria-rowcount")) >= 1_000;
  });
  await done(page);
});

test("of a large plan a graph of groups is drawn, which are opened", async () => {
  const page = await openPage(server, "/n/default/instances/fleet?tab=graph");
  await page.getByRole("button", { name: /^update 600/ }).click();
  await page.getByRole("button", { name: /^update\.0 300/ }).click();
  await page.getByRole("button", { name: /^update\.0\.17 ready/ }).waitFor();
  assert.ok((await page.locator("svg.drawing .box").count()) <= 500);
  await done(page);
});

test("nothing is stored but preferences", async () => {
  const page = await openPage(server, "/n/default");
  await page.locator(".tiles .tile").first().waitFor();
  assert.deepEqual(await page.evaluate(() => Object.keys(localStorage)), ["dfsmr"]);
  assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage)), []);
  assert.deepEqual(await page.context().cookies(), []);
  await done(page);
});
