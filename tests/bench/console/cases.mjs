// The console's figures, a function each: what it measured, beside its bar.
import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";
import { faults, openPage, REPOSITORY, settled, sidewise } from "../../e2e/console/support.mjs";
import {
  clickUntil,
  firstPaint,
  framesWhile,
  heapOf,
  LONG,
  longestTask,
  medians,
  newContext,
  show,
  slowestInput,
} from "./measure.mjs";

const SPACE = "/n/default";
const OVERVIEW = ".tiles .tile";
const INSTANCES = 'table[aria-label="Instances"] tbody tr';
const STEPS = 'table[aria-label="Steps"] tbody tr';
const HISTORY = 'table[aria-label="History"] tbody tr:not(.space)';
const LAYING_OUT = ".graph [aria-busy=true], svg.drawing";
const DRAWN = "svg.drawing:not([aria-busy=true])"; // wholly
const PANNED_MS = 5_000;

const atMost = (what, bar, measured, unit = "") => ({
  what,
  bar: `${bar} ${unit}`.trim(),
  measured: `${Number(measured.toFixed(unit === "s" ? 2 : 1))} ${unit}`.trim(),
  ok: measured <= bar,
});
const atLeast = (what, bar, measured, unit) => ({
  ...atMost(what, bar, measured, unit),
  bar: `${bar} ${unit} or more`,
  ok: measured >= bar,
});
const none = (what, found) => ({ ...atMost(what, 0, found.length), found });

// Bundles --------------------------------------------------------------------------------------

const DIST = path.join(REPOSITORY, "dsrv/console/dist");

export function gzipped(name) {
  return zlib.gzipSync(fs.readFileSync(path.join(DIST, name)), { level: 9 }).length / 1000;
}

async function bundles({ server }) {
  const all = fs.readdirSync(DIST).reduce((sum, name) => sum + gzipped(name), 0);
  const context = await newContext();
  const { page } = await show(context, server.base + SPACE, OVERVIEW);
  const loaded = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .map(({ name }) => new URL(name).pathname)
      .filter((name) => name.startsWith("/assets/")),
  );
  await context.close();
  const first = ["index.html", ...loaded.map((name) => path.basename(name))];
  return [
    atMost("all of dist, gzip", 300, all, "KB"),
    atMost("what the first page loads, gzip", 60, first.reduce((sum, name) => sum + gzipped(name), 0), "KB"),
  ];
}

// First pages ----------------------------------------------------------------------------------

async function firstPages({ server, rounds }) {
  const [painted, overview] = await medians(rounds, async (context) => {
    const { page, shown } = await show(context, server.base + SPACE, OVERVIEW);
    return [(await firstPaint(page)) / 1000, shown / 1000];
  });
  const [listed] = await medians(rounds, async (context) => {
    const { shown } = await show(context, `${server.base}${SPACE}/instances`, INSTANCES, 100);
    return [shown / 1000];
  });
  return [
    atMost("first paint", 0.5, painted, "s"),
    atMost("overview with data", 1, overview, "s"),
    atMost("100 instances listed", 1, listed, "s"),
  ];
}

// A graph --------------------------------------------------------------------------------------

const REPEAT_MS = 30; // between two presses, as of a key that is held down

// Presses a key that changes nothing, as long as `until` is not there.
async function pressUntil(page, until) {
  let over = false;
  until.finally(() => {
    over = true;
  });
  while (!over) {
    await page.keyboard.press("Shift");
    await page.waitForTimeout(REPEAT_MS);
  }
  return until;
}

async function drawn(context, url) {
  const page = await context.newPage();
  await page.goto(url, { waitUntil: "commit" });
  const shown = page.evaluate((what) => globalThis.figures.shown(what, 1), DRAWN);
  await page.evaluate((what) => globalThis.figures.shown(what, 1), LAYING_OUT);
  await slowestInput(page); // from here on
  return { page, shown: await pressUntil(page, shown) };
}

// Drags the drawing to and fro, as a hand would.
const PAN = `(frame) => {
  const drawing = document.querySelector("svg.drawing");
  const event = (type) => new PointerEvent(type, { bubbles: true, button: 0,
    clientX: 400 + 200 * Math.sin(frame / 20), clientY: 300 + 60 * Math.cos(frame / 30) });
  if (frame === 1) drawing.dispatchEvent(event("pointerdown"));
  drawing.dispatchEvent(event("pointermove"));
}`;

async function bigGraph({ server, rounds }) {
  const [laidOut, answered, rate, task] = await medians(rounds, async (context) => {
    const { page, shown } = await drawn(context, `${server.base}${SPACE}/machines/big`);
    const input = await slowestInput(page);
    await longestTask(page);
    const panned = await framesWhile(page, PANNED_MS, PAN);
    return [shown / 1000, input, panned.rate, await longestTask(page)];
  });
  return [
    atMost("a graph of 500 nodes is drawn", 2, laidOut, "s"),
    atMost("input meanwhile is answered within", 100, answered, "ms"),
    atLeast("pan while counts change", 50, rate, "frames/s"),
    atMost("the longest task meanwhile", 100, task, "ms"),
  ];
}

// A plan, a history ----------------------------------------------------------------------------

async function bigPlan({ server, rounds }) {
  const told = [];
  for (const id of ["fleet", "flat"]) {
    const [rows, opened, graph] = await medians(rounds, async (context) => {
      const { page, shown } = await show(context, `${server.base}${SPACE}/instances/${id}?tab=steps`, STEPS);
      const open = await clickUntil(page, `${STEPS} button`, STEPS, 100);
      const whole = await show(context, `${server.base}${SPACE}/instances/${id}?tab=graph`, DRAWN);
      return [shown / 1000, open / 1000, whole.shown / 1000];
    });
    const name = id === "flat" ? "100,000 steps side by side" : "100,000 steps in 100 groups";
    told.push(
      atMost(`${name}: first rows`, 1, rows, "s"),
      atMost(`${name}: open a group`, 0.5, opened, "s"),
      atMost(`${name}: the graph`, 2, graph, "s"),
    );
  }
  return told;
}

// Some screens a second, so that what is further down has to be asked for.
const SCROLL = "() => scrollBy(0, 60)";

async function longHistory({ server, rounds }) {
  const [shown, rate, rows, task] = await medians(rounds, async (context) => {
    const first = await show(context, `${server.base}${SPACE}/instances/long?tab=history`, HISTORY, 100);
    await longestTask(first.page);
    const scrolled = await framesWhile(first.page, PANNED_MS, SCROLL);
    return [first.shown / 1000, scrolled.rate, scrolled.rows, await longestTask(first.page)];
  });
  return [
    atMost("history of 100,000 records: first rows", 1, shown, "s"),
    atLeast("history of 100,000 records: scroll", 50, rate, "frames/s"),
    atMost("rows in the document meanwhile", 200, rows),
    { ...atMost("the longest task meanwhile", Infinity, task, "ms"), bar: "–" },
  ];
}

// An hour --------------------------------------------------------------------------------------

const WARM_MS = 30_000; // until then code is compiled and caches fill
const SAMPLES = 24;

// The slope through the points, by the medians of those between pairs: what is out of line does not count.
function slope(points) {
  const slopes = points.flatMap(([x, y], i) => points.slice(i + 1).map(([x2, y2]) => (y2 - y) / (x2 - x)));
  return slopes.sort((a, b) => a - b)[Math.floor(slopes.length / 2)];
}

async function liveHour({ server, heapMinutes }) {
  const context = await newContext();
  const { page } = await show(context, server.base + SPACE, OVERVIEW);
  const session = await context.newCDPSession(page);
  const begin = performance.now();
  await page.waitForTimeout(WARM_MS);
  const points = [];
  for (let i = 0; i < SAMPLES; ++i) {
    await page.waitForTimeout((heapMinutes * 60_000) / SAMPLES);
    points.push([(performance.now() - begin) / 3_600_000, (await heapOf(session)) / 1e6]);
  }
  await context.close();
  const [at, now] = points.at(-1);
  const growth = slope(points);
  const hour = at >= 1 ? now : now + growth * (1 - at);
  const how = at >= 1 ? "measured" : `extrapolated from ${heapMinutes} min`;
  return [
    atMost(`heap after an hour of live overview (${how})`, 100, hour, "MB"),
    atMost(`its growth in an hour (${how})`, 1, growth, "MB"),
  ];
}

// Ten tabs -------------------------------------------------------------------------------------

const TABS = [
  [SPACE, OVERVIEW],
  [`${SPACE}/instances`, INSTANCES],
  [`${SPACE}/instances?q=is%3Aheld`, INSTANCES],
  [`${SPACE}/instances/long?tab=history`, HISTORY],
  [`${SPACE}/instances/big-1?tab=data`, "[role=tabpanel] .panel, [role=tabpanel] pre"],
  [`${SPACE}/machines`, 'table[aria-label="Machines"] tbody tr'],
  [`${SPACE}/queues`, 'table[aria-label="Queues"] tbody tr'],
  [`${SPACE}/workers`, 'table[aria-label="Workers"] tbody tr'],
  [`${SPACE}/machines/turn`, DRAWN],
  [`${SPACE}/instances/turn-1`, DRAWN],
];

async function tenTabs({ server, rounds }) {
  const [slowest] = await medians(rounds, async (context) => {
    await context.newPage(); // they are tabs of a window that is there: its own pages come once
    const tabs = await Promise.all(TABS.map(([url, what]) => show(context, server.base + url, what)));
    return [Math.max(...tabs.map((tab) => tab.shown)) / 1000];
  });
  return [atMost("the slowest of ten tabs opened at once", 2, slowest, "s")];
}

// Nothing --------------------------------------------------------------------------------------

const ALL = [
  ...TABS.map(([url]) => url),
  `${SPACE}/instances/fleet?tab=steps`,
  `${SPACE}/instances/build-1`,
  `${SPACE}/machines/big`,
  `${SPACE}/feed`,
  `${SPACE}/define?machine=turn`,
];
const SCREENS = [
  [1024, 768, "light"],
  [1024, 768, "dark"],
  [360, 640, "light"],
];

async function nothing({ server }) {
  const complaints = [];
  const reports = [];
  const found = [];
  const wide = [];
  for (const url of ALL) {
    for (const [width, height, colorScheme] of SCREENS) {
      const context = await newContext({ viewport: { width, height }, colorScheme });
      const page = await openPage(server, url, { context });
      page.setDefaultTimeout(LONG);
      await settled(page);
      const at = `${url} at ${width}: `;
      complaints.push(...page.complaints.map((text) => at + text));
      reports.push(...(await page.evaluate(() => globalThis.figures.reports)).map((text) => at + text));
      if ((await sidewise(page)) > 0) wide.push(at);
      found.push(...(await faults(page)).map((text) => at + text));
      await context.close();
    }
  }
  return [
    none("requests to other origins, console errors", complaints),
    none("CSP reports", reports),
    none("axe's findings, light and dark", found),
    none("pages that scroll sideways at 1024 or 360", wide),
  ];
}

export const CASES = { bundles, firstPages, bigGraph, bigPlan, longHistory, tenTabs, nothing, liveHour };
