"""The orders that the tests give a client, one JSON object a line, and its answers."""

import asyncio
import json
import sys


def say(answer):
    print(json.dumps(answer), flush=True)


def result(outcome):
    """What a tool call came to; `outcome` is a `CallToolResult` of the library."""
    return {
        "is_error": outcome.is_error,
        "envelope": outcome.structured_content,
        "text": "".join(part.text for part in outcome.content),
    }


def error(refusal):
    """A JSON-RPC error; `refusal` is the library's exception."""
    return {"error": {"code": refusal.code, "message": refusal.message}}


async def follow(protocol, tools, call):
    """Says that the client is ready, then does as it is told until stdin ends."""
    say({"protocol": protocol})
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        if order["do"] == "list":
            say({"tools": await tools()})
        else:
            say(await call(order["tool"], order["arguments"]))
