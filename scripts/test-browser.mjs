// Runs golden cases in a browser on each backend, and fails if one does or if fewer than MINIMUM ran.
//   node test-browser.mjs CHROMIUM MODULE_FOLDER GOLDENS MINIMUM [PART_OF_A_NAME...]
import { readdirSync, readFileSync } from "node:fs";
import { withPage } from "./browser.mjs";

const BACKENDS = ["wgpu", "cpu"];
// Far more than the slowest case takes.
const SECONDS_A_CASE = 60;

const [executablePath, module, goldens, minimum, ...parts] = process.argv.slice(2);
const cases = readdirSync(goldens)
  .filter((name) => name.endsWith(".safetensors") && (parts.length === 0 || parts.some((part) => name.includes(part))))
  .map((name) => name.replace(".safetensors", ""))
  .sort();

// /module/... and /goldens/... are files, anything else is the empty page.
const folders = { module, goldens };
const types = { js: "text/javascript", wasm: "application/wasm", safetensors: "application/octet-stream" };
function respond(request, response) {
  const [, folder, ...path] = request.url.split("/");
  if (!Object.hasOwn(folders, folder)) {
    response.setHeader("content-type", "text/html").end("<!doctype html><title>golden tests</title>");
    return;
  }
  try {
    const body = readFileSync(`${folders[folder]}/${path.join("/")}`);
    response.setHeader("content-type", types[request.url.split(".").pop()]).end(body);
  } catch (error) {
    response.writeHead(404).end(error.message);
  }
}

// In the page: compiles the module and opens a device. Returns its name.
async function open(backend) {
  const { default: init, Suite } = await import("/module/hopwise_web_tests.js");
  await init({ module_or_path: "/module/hopwise_web_tests_bg.wasm" });
  globalThis.suite = await Suite.open(backend);
  return globalThis.suite.device();
}

// In the page: runs one case. Returns why it could not be run, or nothing.
async function run(name) {
  const read = async (path) => {
    const response = await fetch(`/goldens/${path}.safetensors`);
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
    return new Uint8Array(await response.arrayBuffer());
  };
  const graph = name.split("__")[1];
  return await globalThis.suite.run(await read(name), await read(`graphs/${graph}`));
}

// Runs all cases on one backend, each backend on a page of its own. Returns whether all is well.
async function runAll(backend) {
  const [passed, notRun, failures] = [[], [], []];
  let device = "no device";
  const started = Date.now();
  await withPage(executablePath, respond, async (page, browser) => {
    // A panic ends the module: nothing after it can be believed. It comes as an error of the page while the case's promise stays open.
    const crashed = new Promise((_, reject) => page.on("pageerror", reject));
    crashed.catch(() => {});
    page.on("console", (message) => {
      if (message.type() === "error") console.error(message.text());
    });
    const within = async (work) => {
      let timer;
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`no answer within ${SECONDS_A_CASE} s`)), SECONDS_A_CASE * 1000);
      });
      try {
        return await Promise.race([work, crashed, late]);
      } finally {
        clearTimeout(timer);
      }
    };
    let name = "opening the device";
    try {
      device = `${await within(page.evaluate(open, backend))}, Chromium ${browser.version()}`;
      for (name of cases) {
        const outcome = await within(
          page.evaluate(run, name).then(
            (reason) => ({ reason }),
            (error) => ({ error }),
          ),
        );
        if (outcome.error) failures.push(`${name}: ${outcome.error.message}`);
        else if (outcome.reason) notRun.push(`${name} (${outcome.reason})`);
        else passed.push(name);
      }
    } catch (error) {
      failures.push(`${name}: ${error.message}; the cases after it did not run`);
    }
  });
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  console.log(`golden vectors on ${backend} in a browser (${device}): ${passed.length} passed, ${failures.length} failed, ${seconds} s`);
  notRun.forEach((line) => console.log(`not run: ${line}`));
  failures.forEach((line) => console.error(`FAILED: ${line}`));
  if (passed.length < Number(minimum)) console.error(`only ${passed.length} cases passed, ${minimum} must`);
  return failures.length === 0 && passed.length >= Number(minimum);
}

let well = true;
for (const backend of BACKENDS) well = (await runAll(backend)) && well;
process.exitCode = well ? 0 : 1;
