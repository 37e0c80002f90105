"""The Python client (package mcp): client.py URL ERA, with ERA handshake, per-request or auto.

Does what every client here does, and prints its account as one line of JSON (README.md).
"""

import asyncio
import json
import sys

from mcp import Client
from mcp import types
from mcp.shared.message import ClientMessageMetadata
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation

BRIEF = "memory://brief/today"
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


async def updated(client, updates, write):
    """The URI that a client which follows the brief is told of once something is written."""
    if client.protocol_version == "2026-07-28":
        async with client.listen(resource_subscriptions=[BRIEF]) as followed:
            await write()
            return (await anext(aiter(followed))).uri
    await client.subscribe_resource(BRIEF)
    while True:
        # The stream that brings it may not be open at the first write.
        await write()
        try:
            return await asyncio.wait_for(updates.get(), 1)
        except TimeoutError:
            pass


async def called_off(client, word):
    """Calls a long job off as soon as it has told how far it is; what it has left to do then."""
    begun = asyncio.Event()

    async def progress(*_):
        begun.set()

    job = asyncio.create_task(client.call_tool(
        "ingest_paths_tool", {"paths": [word]}, progress_callback=progress))
    await begun.wait()
    job.cancel()
    ended = (await asyncio.gather(job, return_exceptions=True))[0]
    again = await call(client, "ingest_paths_tool", {"paths": [word], "dry_run": True})
    return {"ended": isinstance(ended, asyncio.CancelledError), "again": again}


async def resumed(client):
    """The answer of a call, and what comes of its stream when it is taken up again at its first event."""
    tokens = []

    async def keep(token):
        tokens.append(token)

    async def progress(*_):
        pass

    async def ask(**hints):
        params = types.CallToolRequestParams(
            name="retrieval_arbitrate_tool", arguments={"query": "what does the lamp burn?"})
        result = await client.session.send_request(
            types.CallToolRequest(params=params), types.CallToolResult,
            metadata=ClientMessageMetadata(**hints), progress_callback=progress)
        return result.structured_content["receipt"]["receipt_id"]

    first = await ask(on_resumption_token_update=keep)
    return [first, await ask(resumption_token=tokens[0])]


async def beyond_tools(client, updates, word, item):
    """Resources, prompts, completions, and what goes on while a call is under way."""
    by_request = client.protocol_version == "2026-07-28"
    uri = f"memory://item/{item}"
    templates = (await client.list_resource_templates()).resource_templates
    prompt = await client.get_prompt("consult-memory-first", {"question": f"where is the {word}?"})
    tag = types.PromptReference(name="record-a-decision")
    completed = await client.complete(tag, {"name": "tag", "value": word})
    told = {
        "resource": (await client.read_resource(BRIEF)).contents[0].text,
        "templates": [template.uri_template for template in templates],
        "template": (await client.read_resource(uri)).contents[0].text,
        "prompt": prompt.messages[0].content.text,
        "completed": completed.completion.values,
        "updated": await updated(client, updates, lambda: call(client, "brain_remember", {
            "text": f"A {word} was seen at noon."})),
        "called_off": await called_off(client, word),
    }
    if not by_request:
        await client.set_logging_level("debug")
        told["logging"] = True
        told["resumed"] = await resumed(client)
    return told


async def account(url, mode, word):
    told = {}
    info = Implementation(name="python", version="1")
    updates = asyncio.Queue()

    async def heard(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.put_nowait(str(message.params.uri))

    async with Client(f"{url}/mcp", mode=mode, client_info=info, message_handler=heard) as client:
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
        item = told["remember"]["structured"]["item"]["id"]
        told |= await beyond_tools(client, updates, word, item)
    async with Client(f"{url}/mcp?profile=core", mode=mode, client_info=info) as client:
        told["core"] = [tool.name for tool in (await client.list_tools()).tools]
    told["ended"] = True
    return told


def main():
    url, era, word = sys.argv[1:]
    print(json.dumps(asyncio.run(asyncio.wait_for(account(url, MODES[era], word), 60))))


main()
