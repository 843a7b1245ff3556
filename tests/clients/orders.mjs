// The orders that the tests give a client, one JSON object a line, and its answers.

import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

// The packages are not installed next to these programs.
export const require = createRequire(join(process.env.COZYVTT_FOREIGN_CLIENTS, "package.json"));

const say = (answer) => console.log(JSON.stringify(answer));

/** What a tool call came to; `outcome` is a `CallToolResult`. */
export const result = (outcome) => ({
  is_error: outcome.isError ?? false,
  envelope: outcome.structuredContent ?? null,
  text: outcome.content.map((part) => part.text).join(""),
});

/** Says that the client is ready, then does as it is told until stdin ends. */
export async function follow(protocol, tools, call) {
  say({ protocol });
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    say(
      order.do === "list"
        ? { tools: await tools() }
        : await call(order.tool, order.arguments),
    );
  }
}
