"""The Python client (package mcp): client.py URL ERA, with ERA handshake, per-request or auto.

Does what every client here does, and prints its account as one line of JSON (README.md).
"""

import asyncio
import json
import sys

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation

MODES = {"handshake": "legacy", "per-request": "2026-07-28", "auto": "auto"}


async def call(client, tool, arguments):
    """What a tool answers, in the form of the account."""
    result = await client.call_tool(tool, arguments)
    return {
        "error": bool(result.is_error),
        "text": result.content[0].text,
        "structured": result.structured_content,
    }


async def refusal(client, tool):
    try:
        await client.call_tool(tool, {})
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}
    return None


async def account(url, mode, word):
    told = {}
    info = Implementation(name="python", version="1")
    async with Client(f"{url}/mcp", mode=mode, client_info=info) as client:
        told["protocol"] = client.protocol_version
        told["server"] = client.server_info.name if client.server_info else None
        told["instructions"] = client.instructions
        told["tools"] = [tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                         for tool in (await client.list_tools()).tools]
        told["recall"] = await call(client, "retrieval_arbitrate_tool",
                                    {"query": "what does the lamp burn?"})
        told["remember"] = await call(client, "brain_remember", {
            "text": f"The {word} nests on the gallery rail.", "tags": json.dumps([word, "birds"])})
        told["again"] = await call(client, "retrieval_arbitrate_tool",
                                   {"query": f"where does the {word} nest?"})
        told["misspelt"] = await call(client, "retrieval_arbitrate_tool", {"quary": "lamp"})
        told["unknown"] = await refusal(client, "brain_rember")
        # A client that is told its revision asks the server nothing before its first request.
        told["blind"] = mode not in ("legacy", "auto")
        capabilities = client.server_capabilities
        told["resources"] = told["prompts"] = None
        if told["blind"] or capabilities.resources is not None:
            told["resources"] = len((await client.list_resources()).resources)
        if told["blind"] or capabilities.prompts is not None:
            told["prompts"] = len((await client.list_prompts()).prompts)
    async with Client(f"{url}/mcp?profile=core", mode=mode, client_info=info) as client:
        told["core"] = [tool.name for tool in (await client.list_tools()).tools]
    told["ended"] = True
    return told


def main():
    url, era, word = sys.argv[1:]
    print(json.dumps(asyncio.run(asyncio.wait_for(account(url, MODES[era], word), 60))))


main()
