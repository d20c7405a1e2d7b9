// Gives every shader in a JSON file, [[name, source], ...], to a browser's WGSL compiler, and makes a compute pipeline of the variant of
// each kernel that has most in it: what a pipeline asks beyond, the variants of a kernel have in common, and it takes ten times as long.
//   node check-browser-shaders.mjs CHROMIUM SHADERS.json
import { readFileSync } from "node:fs";
import { withPage } from "./browser.mjs";

const [executablePath, file] = process.argv.slice(2);
const shaders = JSON.parse(readFileSync(file, "utf8"));

const respond = (_, response) => response.end("<!doctype html><title>shaders</title>");
await withPage(executablePath, respond, async (page, browser) => {
  const { failures, pipelines } = await page.evaluate(async (shaders) => {
    if (!(await navigator.gpu?.requestAdapter())) throw new Error("the browser has no WebGPU adapter");
    // The defaults, which every browser grants: nothing is requested, but for the variants that say what they need.
    const open = async (requiredFeatures) => (await navigator.gpu.requestAdapter()).requestDevice({ requiredFeatures });
    const plain = await open([]);
    const withSubgroups = await open(["subgroups"]).catch((error) => error);
    if (withSubgroups instanceof Error) throw new Error(`the browser's adapter has no subgroups: ${withSubgroups.message}`);
    const kernelOf = (name) => name.split(" ", 2).join(" ");
    const fullest = new Map();
    for (const [name, code] of shaders) {
      const kernel = kernelOf(name);
      if (code.length > (fullest.get(kernel)?.length ?? 0)) fullest.set(kernel, { name, length: code.length });
    }
    const failures = [];
    const check = async ([name, code]) => {
      const device = code.startsWith("enable subgroups;") ? withSubgroups : plain;
      const module = device.createShaderModule({ code });
      const { messages } = await module.getCompilationInfo();
      const errors = messages.filter((m) => m.type === "error").map((m) => `${m.lineNum}: ${m.message}`);
      if (errors.length > 0) {
        failures.push(`${name}: ${errors.join("; ")}`);
        return;
      }
      if (fullest.get(kernelOf(name)).name !== name) return;
      try {
        await device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: "main" } });
      } catch (error) {
        failures.push(`${name}: ${error.message}`);
      }
    };
    // The browser compiles pipelines on threads of its own: as many at once as there are cores, and one to be ready.
    const left = shaders.values();
    const work = async () => {
      for (const shader of left) await check(shader);
    };
    await Promise.all(Array.from({ length: navigator.hardwareConcurrency + 1 }, work));
    return { failures, pipelines: fullest.size };
  }, shaders);
  failures.forEach((failure) => console.error(failure));
  console.log(`${shaders.length} shaders and ${pipelines} pipelines compiled by ${browser.version()}: ${failures.length} failed`);
  process.exitCode = failures.length === 0 && shaders.length > 0 ? 0 : 1;
});
