// The store that the figures are measured with: filled once, kept for the next time, and moving.
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { REPOSITORY, Server } from "../../e2e/console/support.mjs";

const FILLER = path.join(REPOSITORY, "tests/bench/console/store.py");

function python(...words) {
  return spawn("/usr/bin/python3", [FILLER, ...words.map(String)], { stdio: "inherit" });
}

function ended(process) {
  return new Promise((resolve) => process.once("exit", resolve));
}

// A store is what one version of the filler made: another version fills it anew.
function label(instances) {
  return JSON.stringify({ instances, filler: fs.readFileSync(FILLER, "utf8") });
}

function open(folder) {
  // What was filled once must not be over when it is looked at again.
  return Server.withItsPages(folder, "--retention", "3650d");
}

export async function openStore(folder, instances) {
  const filled = path.join(folder, "filled.json");
  if (fs.existsSync(filled) && fs.readFileSync(filled, "utf8") === label(instances)) return open(folder);
  console.log(`filling ${folder} with ${instances} instances`);
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  const server = await open(folder);
  const code = await ended(python("fill", server.address, "--instances", instances));
  await server.kill("SIGTERM");
  if (code !== 0) throw new Error("the store could not be filled");
  fs.writeFileSync(filled, label(instances));
  return open(folder);
}

// Transitions that go on until the function that it returns is called.
export function keepMoving(server, rate) {
  const load = python("load", server.address, "--rate", rate);
  load.once("exit", (code) => console.error(`the load has ended with ${code}: nothing moves any more`));
  return async () => {
    load.removeAllListeners("exit");
    const over = ended(load);
    load.kill();
    await over;
  };
}
