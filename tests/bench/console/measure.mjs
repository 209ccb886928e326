// How pages are measured: from inside, by the browser's own clock.
import { openBrowser } from "../../e2e/console/support.mjs";

export const LONG = 120_000; // what is far too slow is still to be told

export function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

// Runs in each page before its scripts: what took long, what its policy refused, when something is shown.
function observe() {
  const seen = { tasks: [], inputs: [], reports: [] };
  const keep = (type, kept, options) =>
    new PerformanceObserver((list) => kept.push(...list.getEntries().map((entry) => entry.duration))).observe(
      { type, buffered: true, ...options },
    );
  keep("longtask", seen.tasks);
  keep("event", seen.inputs, { durationThreshold: 16 });
  addEventListener("securitypolicyviolation", (event) =>
    seen.reports.push(`${event.violatedDirective}: ${event.blockedURI}`),
  );
  // When there are so many elements of the selector, and they have been painted.
  seen.shown = (selector, least) =>
    new Promise((resolve) => {
      const painted = () => requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
      const there = () => document.querySelectorAll(selector).length >= least;
      if (there()) return painted();
      const observer = new MutationObserver(() => {
        if (!there()) return;
        observer.disconnect();
        painted();
      });
      return observer.observe(document, { childList: true, subtree: true, attributes: true });
    });
  globalThis.figures = seen;
}

// A context of its own has a cache of its own, which is empty.
export async function newContext(options = {}) {
  const browser = await openBrowser();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(LONG);
  await context.addInitScript(observe);
  return context;
}

// The page of this address, and when it showed what is looked for, in ms since it was asked for.
export async function show(context, url, selector, least = 1) {
  const page = await context.newPage();
  await page.goto(url, { waitUntil: "commit" });
  const shown = await page.evaluate(([what, many]) => globalThis.figures.shown(what, many), [selector, least]);
  return { page, shown };
}

// Clicks on an element, and tells how many ms later there is what is looked for.
export function clickUntil(page, element, selector, least = 1) {
  return page.evaluate(
    async ([clicked, what, many]) => {
      const begin = performance.now();
      document.querySelector(clicked).click();
      return (await globalThis.figures.shown(what, many)) - begin;
    },
    [element, selector, least],
  );
}

// Calls `action` in turns of an own context, which it gets, and gives the medians of what it tells.
export async function medians(rounds, action) {
  const told = [];
  for (let round = 0; round < rounds; ++round) {
    const context = await newContext();
    told.push(await action(context));
    await context.close();
  }
  return told[0].map((_, i) => median(told.map((values) => values[i])));
}

export function firstPaint(page) {
  return page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
}

// In ms, since the last time that it was asked for.
export function longestTask(page) {
  return page.evaluate(() => Math.max(0, ...globalThis.figures.tasks.splice(0)));
}

// From the press of a key to the frame that answers it.
export function slowestInput(page) {
  return page.evaluate(() => Math.max(0, ...globalThis.figures.inputs.splice(0)));
}

// Frames a second while `move`, a function that runs in the page, is called with the number of each; and
// how many rows there were at most.
export function framesWhile(page, ms, move) {
  return page.evaluate(`new Promise((resolve) => {
    const move = ${move};
    const begin = performance.now();
    let frames = 0;
    let rows = 0;
    requestAnimationFrame(function frame() {
      const spent = performance.now() - begin;
      rows = Math.max(rows, document.querySelectorAll("tbody tr").length);
      if (spent >= ${ms}) return resolve({ rate: (frames * 1000) / spent, rows });
      move(++frames);
      requestAnimationFrame(frame);
    });
  })`);
}

// Bytes of live objects: what is garbage is collected first.
export async function heapOf(session) {
  await session.send("HeapProfiler.collectGarbage");
  return (await session.send("Runtime.getHeapUsage")).usedSize;
}
