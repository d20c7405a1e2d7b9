// Opens a page of a server on this machine in headless Chromium, with WebGPU on a processor.
import { createServer } from "node:http";
import { chromium } from "playwright-core";

// Calls use(page, browser) on a page at "/", where `respond` answers requests as node's http server asks for them.
export async function withPage(executablePath, respond, use) {
  // WebGPU needs a secure context: a page on this machine is one, a blank page is not.
  const server = createServer(respond);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  try {
    const browser = await chromium.launch({
      executablePath,
      headless: true,
      args: [
        "--no-sandbox",
        "--enable-unsafe-webgpu",
        "--use-webgpu-adapter=swiftshader",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    });
    try {
      const page = await browser.newPage();
      await page.goto(`http://127.0.0.1:${server.address().port}/`);
      await use(page, browser);
    } finally {
      await browser.close();
    }
  } finally {
    server.close();
  }
}
