"""FastMCP's client: `fastmcp_client.py ERA COMMAND [ARGUMENT]...`"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import MCPError

from orders import error, follow, result

# `auto`, which is the default, asks for 2026-07-28 first.
MODES = {"handshake": "legacy", "stateless": "auto"}


async def main(era, command, *arguments):
    # Kept alive, the shim would outlast the client.
    shim = StdioTransport(command, list(arguments), keep_alive=False)
    async with Client(shim, mode=MODES[era]) as client:

        async def tools():
            return [tool.name for tool in await client.list_tools()]

        async def call(tool, arguments):
            try:
                return result(
                    await client.call_tool(tool, arguments, raise_on_error=False)
                )
            except MCPError as refusal:
                return error(refusal)

        await follow(client.protocol_version, tools, call)


asyncio.run(main(*sys.argv[1:]))
