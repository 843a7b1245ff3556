// The client of the TypeScript SDK: `typescript_sdk.mjs ERA COMMAND [ARGUMENT]...`

import { follow, require, result } from "./orders.mjs";

const { Client, ProtocolError } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

// `legacy` is the default; `auto` asks for 2026-07-28 first, of a shim of its own.
const MODES = { handshake: "legacy", stateless: "auto" };

const [era, command, ...args] = process.argv.slice(2);
const client = new Client(
  { name: "typescript-sdk", version: "1.0.0" },
  { versionNegotiation: { mode: MODES[era] } },
);
await client.connect(new StdioClientTransport({ command, args }));

async function tools() {
  const listed = await client.listTools();
  return listed.tools.map((tool) => tool.name);
}

async function call(name, args) {
  try {
    return result(await client.callTool({ name, arguments: args }));
  } catch (refusal) {
    if (!(refusal instanceof ProtocolError)) throw refusal;
    return { error: { code: refusal.code, message: refusal.message } };
  }
}

await follow(client.getNegotiatedProtocolVersion(), tools, call);
await client.close();
