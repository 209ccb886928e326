// What the tests of the console share: a real dsrv, calls to it, a browser, and pages that must not
// complain. Nothing here waits for a time: it waits for the thing.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const REPOSITORY = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const CONSOLE = path.join(REPOSITORY, "dsrv/console");
const BIN = process.env.DFSMR_BIN ?? path.join(REPOSITORY, "build/bin");
const require = createRequire(path.join(CONSOLE, "package.json"));
const { chromium } = require("playwright-core");
const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

export const SOON = 30_000;

export function machine(name) {
  const folder = path.join(REPOSITORY, "machines");
  const file = fs.readdirSync(folder).find((one) => one.startsWith(`${name}.`) && one.endsWith(".yaml"));
  return fs.readFileSync(path.join(folder, file), "utf8");
}

export async function eventually(what, check) {
  const end = Date.now() + SOON;
  let last;
  do {
    try {
      const value = await check();
      if (value) return value;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setImmediate(resolve));
  } while (Date.now() < end);
  throw last ?? new Error(`never came: ${what}`);
}

export class Server {
  // Serves the pages of the folder, so that a test never sees those of an earlier build.
  static start(...flags) {
    return Server.in(fs.mkdtempSync(path.join(os.tmpdir(), "dfsmr-console-")), ...flags);
  }

  static in(folder, ...flags) {
    return Server.withItsPages(folder, "--console-dir", path.join(CONSOLE, "dist"), ...flags);
  }

  // Serves the pages that the program holds, as people have them.
  static async withItsPages(folder, ...flags) {
    const server = new Server();
    server.folder = folder;
    server.flags = flags;
    await server.run();
    return server;
  }

  async run() {
    this.log = "";
    this.process = spawn(path.join(BIN, "dsrv"), [
      "--addr",
      "localhost:0",
      "--http",
      this.port ? `localhost:${this.port}` : "localhost:0",
      "--data",
      path.join(this.folder, "data"),
      ...this.flags,
    ]);
    this.process.stderr.setEncoding("utf8");
    this.port = await new Promise((resolve, reject) => {
      this.process.stderr.on("data", (text) => {
        this.log += text;
        const found = /http=\S*:(\d+)/.exec(this.log);
        if (found) resolve(Number(found[1]));
      });
      this.process.on("error", reject);
      this.process.on("exit", (code) => reject(new Error(`dsrv ended with ${code}:\n${this.log}`)));
    });
    this.base = `http://localhost:${this.port}`;
    this.address = `localhost:${/ port=(\d+)/.exec(this.log)[1]}`; // of gRPC
  }

  async call(method, request = {}, { service = "RunnerService", token } = {}) {
    const response = await fetch(`${this.base}/dfsmr.v1.${service}/${method}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...((token ?? this.token) ? { authorization: `Bearer ${token ?? this.token}` } : {}),
      },
      body: JSON.stringify(request),
    });
    const reply = await response.json();
    if (!response.ok) throw new Error(`${method}: ${reply.message}`);
    return reply;
  }

  define(source, more = {}) {
    return this.call("Define", { source, ...more });
  }

  start(machineId, id, params = {}, more = {}) {
    return this.call("Start", { machine: machineId, id, params, ...more });
  }

  get(id) {
    return this.call("GetInstance", { id });
  }

  async claim(machineId, more = {}) {
    const { tasks = [] } = await this.call("Ready", {
      machine: machineId,
      worker: "tester",
      wait: "5s",
      ...more,
    });
    assert.equal(tasks.length, 1, "there was no task to claim");
    return tasks[0];
  }

  // Claims a task and reports on it.
  async work(machineId, transition = "ok", report = {}) {
    const task = await this.claim(machineId);
    await this.call("Transition", { instance: task.instance, claim: task.claim, transition, ...report });
    return task;
  }

  async kill(signal = "SIGKILL") {
    this.process.removeAllListeners("exit");
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill(signal);
    await ended;
  }

  async stop() {
    await this.kill();
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

export const ADMIN = "the-first-admin-of-the-consoles-tests-0123456789";

export async function guarded() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "dfsmr-console-token-"));
  const file = path.join(folder, "admin.token");
  fs.writeFileSync(file, `${ADMIN}\n`, { mode: 0o600 });
  const server = await Server.start("--auth", "tokens", "--admin-token-file", file);
  server.token = ADMIN;
  return server;
}

let browser;

export async function openBrowser() {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  return browser;
}

export async function closeBrowser() {
  await browser?.close();
  browser = undefined;
}

// Lines that the browser itself writes about refused requests are of those that a test caused.
const OWN_LINES = /Failed to load resource|net::ERR_/;

// A page, and what it complained of. Requests to elsewhere are complaints, too.
export async function openPage(
  server,
  url,
  { theme = "light", width = 1280, height = 800, context } = {},
) {
  const within =
    context ?? (await (await openBrowser()).newContext({ viewport: { width, height }, colorScheme: theme }));
  const page = await within.newPage();
  page.complaints = [];
  page.on("console", (message) => {
    if (message.type() === "error" && !OWN_LINES.test(message.text())) page.complaints.push(message.text());
  });
  page.on("pageerror", (error) => page.complaints.push(error.stack));
  page.on("request", (request) => {
    if (!request.url().startsWith(server.base) && !request.url().startsWith("data:"))
      page.complaints.push(`asked elsewhere: ${request.url()}`);
  });
  page.setDefaultTimeout(SOON);
  await page.goto(server.base + url);
  return page;
}

export async function done(page) {
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}

// The same of a page whose context goes on.
export async function close(page) {
  assert.deepEqual(page.complaints, []);
  await page.close();
}

export async function settled(page) {
  await page.waitForFunction(
    () => document.querySelector("main h1") && !document.querySelector("[aria-busy=true], .waiting"),
  );
}

// What axe finds wrong.
export const faults = (page) => violationsOf(page, RULES);
export const faultsOfColours = (page) =>
  violationsOf(page, { type: "rule", values: ["color-contrast", "link-in-text-block"] });

async function violationsOf(page, runOnly) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  const { violations } = await page.evaluate(
    (which) => globalThis.axe.run(document, { runOnly: which, resultTypes: ["violations"] }),
    runOnly,
  );
  return violations.map(
    (violation) =>
      `${violation.id}: ${violation.nodes
        .slice(0, 3)
        .map((node) => node.html)
        .join(" | ")}`,
  );
}

// Lists that must be moved sideways to be read: [name, width, width of what is in it].
export async function cutOff(page) {
  return page.evaluate(() =>
    [...document.querySelectorAll(".list:not(.whole)")]
      .map((list) => [
        list.querySelector("table")?.getAttribute("aria-label"),
        list.clientWidth,
        list.scrollWidth,
      ])
      .filter(([, width, inside]) => inside > width),
  );
}

export async function sidewise(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}
