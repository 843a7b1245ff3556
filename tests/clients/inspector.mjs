// The MCP Inspector's command line, one process a call: `inspector.mjs ERA COMMAND [ARGUMENT]...`

import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";

import { follow, require, result } from "./orders.mjs";

// `legacy` is the default; `modern` takes nothing but 2026-07-28.
const ERAS = { handshake: "legacy", stateless: "modern" };

const manifest = require.resolve("@modelcontextprotocol/inspector/package.json");
const program = join(dirname(manifest), require(manifest).bin["mcp-inspector"]);
const [era, ...shim] = process.argv.slice(2);

/** What the Inspector printed: the answer on stdout, else its reason on stderr. */
async function inspect(...args) {
  const common = ["--cli", "--quiet", "--format", "json", "--protocol-era", ERAS[era]];
  const inspector = spawn(process.execPath, [program, ...common, ...args, "--", ...shim], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [answer, reason] = await Promise.all([text(inspector.stdout), text(inspector.stderr)]);
  return JSON.parse(answer || reason);
}

async function tools() {
  const listed = await inspect("--method", "tools/list");
  return listed.result.tools.map((tool) => tool.name);
}

async function call(name, args) {
  const tool = ["--tool-name", name, "--tool-args-json", JSON.stringify(args)];
  const answer = await inspect("--method", "tools/call", ...tool);
  return answer.error ? { error: answer.error } : result(answer.result);
}

await follow(null, tools, call);
