// Builds dist/ of src/: the files that dsrv serves.
//
//   node build.js            writes dist/
//   node build.js --check    builds beside it, and fails where dist/ is not the same, byte by byte
//   node build.js --test     makes the types of messages from the protos, checks types, runs unit tests
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";

const HERE = path.dirname(fileURLToPath(import.meta.url));
process.chdir(HERE);

const FILES = [
  "index.html",
  "app.js",
  "app.css",
  "editor.js",
  "layout.js",
  "more.js",
  "icon.svg",
  "LICENSES.txt",
];

const COMMON = {
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
  write: false,
  logLevel: "warning",
};

async function bundle(entry, options = {}) {
  const built = await esbuild.build({ ...COMMON, entryPoints: [entry], ...options });
  return { bytes: Buffer.from(built.outputFiles[0].contents), inputs: Object.keys(built.metafile.inputs) };
}

// app.js has what the first page needs, more.js the other pages. What both need is in app.js alone, which
// puts those of its modules where more.js finds them: one copy of each, and no request for a third file.
async function bundlePages() {
  const shared = (modules) => ({
    name: "shared",
    setup(build) {
      build.onResolve({ filter: /^shared$/ }, () => ({ path: "shared", namespace: "shared" }));
      build.onLoad({ filter: /.*/, namespace: "shared" }, () => ({
        resolveDir: HERE,
        contents:
          modules.map((name, i) => `import * as m${i} from "./${name}";\n`).join("") +
          `globalThis.dfsmrShared = {${modules.map((name, i) => `${JSON.stringify(name)}: m${i}`).join(", ")}};`,
      }));
    },
  });
  const early = new Set((await bundle("src/main.tsx", { plugins: [shared([])] })).inputs);
  const used = new Set();
  const fromApp = {
    name: "from-app",
    setup(build) {
      build.onResolve({ filter: /.*/ }, async ({ path: name, kind, resolveDir, pluginData }) => {
        if (kind === "entry-point" || pluginData === "resolved") return undefined;
        const found = await build.resolve(name, { kind, resolveDir, pluginData: "resolved" });
        const file = path.relative(HERE, found.path);
        if (!early.has(file)) return found;
        used.add(file);
        return { path: `${file}.cjs`, namespace: "from-app" };
      });
      build.onLoad({ filter: /.*/, namespace: "from-app" }, ({ path: name }) => ({
        contents: `module.exports = globalThis.dfsmrShared[${JSON.stringify(name.slice(0, -4))}];`,
      }));
    },
  };
  const more = await bundle("src/pages/more.ts", { plugins: [fromApp] });
  return { more, app: await bundle("src/main.tsx", { plugins: [shared([...used].sort())] }) };
}

// The licences of all packages that something of the bundles comes from.
function licences(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) packages.add(found[1]);
  }
  let text = "The console holds parts of these packages.\n";
  for (const name of [...packages].sort()) {
    const folder = path.join("node_modules", name);
    const { version, license } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
    const file = fs.readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const terms = file ? fs.readFileSync(path.join(folder, file), "utf8").trim() : `Licence: ${license}`;
    text += `\n${"-".repeat(72)}\n${name} ${version}\n\n${terms.replace(/\r/g, "")}\n`;
  }
  return text;
}

async function build(out) {
  const editor = await bundle("src/editor/editor.ts");
  const layout = await bundle("src/graph/worker.ts", { format: "iife" });
  const { app, more } = await bundlePages();
  const css = await bundle("src/app.css");
  fs.mkdirSync(out, { recursive: true });
  const write = (name, content) => fs.writeFileSync(path.join(out, name), content);
  write("index.html", fs.readFileSync("src/index.html"));
  write("app.js", app.bytes);
  write("app.css", css.bytes);
  write("more.js", more.bytes);
  write("editor.js", editor.bytes);
  write("layout.js", layout.bytes);
  write("icon.svg", fs.readFileSync("src/icon.svg"));
  write("LICENSES.txt", licences([editor, layout, app, more, css].flatMap((part) => part.inputs)));
}

async function check() {
  const out = fs.mkdtempSync(path.join(os.tmpdir(), "dfsmr-console-"));
  try {
    await build(out);
    const other = FILES.filter((name) => {
      const kept = path.join("dist", name);
      return !fs.existsSync(kept) || !fs.readFileSync(kept).equals(fs.readFileSync(path.join(out, name)));
    });
    if (other.length > 0) {
      console.error(
        `dsrv/console/dist is not what src makes: ${other.join(", ")}; run 'make console' and commit it`,
      );
      process.exitCode = 1;
    }
  } finally {
    fs.rmSync(out, { recursive: true });
  }
}

function run(program, ...args) {
  const { status } = spawnSync(program, args, { stdio: "inherit" });
  if (status !== 0) throw new Error(`${path.basename(args[0] ?? program)} failed`);
}

// Types alone: nothing of protobuf runs in the browser.
function makeTypes() {
  const protos = process.env.DFSMR_PROTOS ?? "../../proto";
  fs.rmSync("types", { recursive: true, force: true });
  fs.mkdirSync("types");
  const files = fs
    .readdirSync(`${protos}/dfsmr/v1`)
    .filter((name) => name.endsWith(".proto"))
    .sort();
  run(
    "protoc",
    "--plugin=protoc-gen-es=node_modules/.bin/protoc-gen-es",
    "--es_out=types",
    "--es_opt=target=dts,json_types=true",
    "-I",
    protos,
    ...files.map((name) => `dfsmr/v1/${name}`),
  );
}

async function test() {
  makeTypes();
  run(process.execPath, "node_modules/typescript/bin/tsc");
  const out = fs.mkdtempSync(path.join(os.tmpdir(), "dfsmr-console-"));
  try {
    const tests = fs
      .readdirSync("src", { recursive: true })
      .filter((name) => /\.test\.tsx?$/.test(name))
      .sort();
    await esbuild.build({
      ...COMMON,
      minify: false,
      write: true,
      platform: "node",
      outdir: out,
      outExtension: { ".js": ".mjs" },
      entryPoints: tests.map((name) => `src/${name}`),
    });
    const built = fs.readdirSync(out, { recursive: true }).filter((name) => name.endsWith(".test.mjs"));
    run(process.execPath, "--test", ...built.map((name) => path.join(out, name)));
  } finally {
    fs.rmSync(out, { recursive: true });
  }
}

const task = process.argv.includes("--test")
  ? test
  : process.argv.includes("--check")
    ? check
    : () => build("dist");
await task().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
