"""A trivial MCP server on FastMCP: as many tools as ours has, which do nothing."""

from fastmcp import FastMCP

TOOLS = 41

server = FastMCP("peer")


def tool(number: int):
    def do(campaign_id: str, text: str = "", amount: int = 1) -> dict:
        return {"ok": True, "data": {"campaign": campaign_id, "text": text, "amount": amount}}

    do.__name__ = f"tool_{number}"
    do.__doc__ = f"Does the thing number {number} at the table, and tells what became of it."
    return do


for number in range(TOOLS):
    server.tool(tool(number))

if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False)
