// Measures what console.md promises of the pages ("Figures"), in Debian's Chromium against a real dsrv.
//
//   node tests/bench/console/figures.mjs [--instances 1000000] [--rounds 5] [--only CASE,…]
//                                        [--heap-minutes 2] [--rate 100] [--data build/console-figures]
//
// The first run fills a store, which is kept; DFSMR_BIN tells where dsrv is, if not in build/bin. The heap
// of an hour is extrapolated from a few minutes; with --heap-minutes 60 the hour is measured. Ends with 1
// where a figure is missed.
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { closeBrowser, REPOSITORY } from "../../e2e/console/support.mjs";
import { CASES } from "./cases.mjs";
import { keepMoving, openStore } from "./store.mjs";

const { values: given } = parseArgs({
  options: {
    instances: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "5" },
    rate: { type: "string", default: "100" },
    only: { type: "string", default: Object.keys(CASES).join() },
    data: { type: "string", default: path.join(REPOSITORY, "build/console-figures") },
    "heap-minutes": { type: "string", default: "2" },
  },
});

const WIDTHS = [56, 20, 16];

function print(...cells) {
  console.log(cells.map((cell, i) => String(cell).padEnd(WIDTHS[i] ?? 0)).join("  ").trimEnd());
}

const names = given.only.split(",");
for (const name of names) {
  if (!CASES[name]) throw new Error(`there is no ${name}: ${Object.keys(CASES).join(", ")}`);
}
const server = await openStore(given.data, Number(given.instances));
const rest = keepMoving(server, Number(given.rate));
let missed = 0;
try {
  console.log(`${given.instances} instances, ${given.rate} transitions/s, medians of ${given.rounds}`);
  print("what", "at most", "measured");
  for (const name of names) {
    const told = await CASES[name]({
      server,
      rounds: Number(given.rounds),
      heapMinutes: Number(given["heap-minutes"]),
    });
    for (const { what, bar, measured, ok, found = [] } of told) {
      missed += ok ? 0 : 1;
      print(what, bar, measured, ok ? "ok" : "missed");
      for (const one of found.slice(0, 10)) console.log(`  ${one}`);
    }
  }
} finally {
  await closeBrowser();
  await rest();
  await server.kill("SIGTERM");
}
console.log(`load average ${os.loadavg()[0].toFixed(1)} on ${os.cpus().length} cores; ${missed} missed`);
process.exitCode = missed > 0 ? 1 : 0;
