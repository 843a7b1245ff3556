"""The client of the Python MCP SDK: `python_sdk.py ERA COMMAND [ARGUMENT]...`"""

import asyncio
import sys

from mcp import Client, MCPError, StdioServerParameters

from orders import error, follow, result

# `auto`, which is the default, asks for 2026-07-28 first.
MODES = {"handshake": "legacy", "stateless": "auto"}


async def main(era, command, *arguments):
    server = StdioServerParameters(command=command, args=list(arguments))
    async with Client(server, mode=MODES[era]) as client:

        async def tools():
            listed = await client.list_tools()
            return [tool.name for tool in listed.tools]

        async def call(tool, arguments):
            try:
                return result(await client.call_tool(tool, arguments))
            except MCPError as refusal:
                return error(refusal)

        await follow(client.protocol_version, tools, call)


asyncio.run(main(*sys.argv[1:]))
