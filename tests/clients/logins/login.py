"""The Python client (package mcp) signs in: login.py URL WORKSPACE ONCE KEY BEARER.

ONCE is a one-time access key, KEY the workspace's own, BEARER a per-user bearer. Prints one line of JSON, what it came
to on each way (README.md).
"""

import asyncio
import json
import sys
import urllib.parse

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from walk import walk

CALLBACK = "http://127.0.0.1:8976/callback"
SECONDS_MAX = 60


class Kept:
    """Tokens and what the client was registered as."""

    def __init__(self):
        self.tokens = self.info = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.info

    async def set_client_info(self, info):
        self.info = info


async def told(url, word, **options):
    """What the service shows whoever comes with this."""
    async with httpx2.AsyncClient(timeout=SECONDS_MAX, **options) as http:
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
            tools = sorted(tool.name for tool in (await client.list_tools()).tools)
            text = f"The {word} sails at dawn."
            wrote = await client.call_tool("brain_remember", {"text": text})
            found = await client.call_tool(
                "retrieval_arbitrate_tool", {"query": f"when does the {word} sail?"})
            return {"tools": tools, "wrote": not wrote.is_error, "found": found.content[0].text}


def browser(url, kept, workspace, once):
    """Signs in by the page, having nothing but the address."""
    location = {}

    async def redirect(to):
        location["is"] = await asyncio.to_thread(walk, to, workspace, once)

    async def callback():
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(location["is"]).query)
        return AuthorizationCodeResult(**{name: query[name][0] for name in ("code", "state", "iss")})

    metadata = OAuthClientMetadata(client_name="Python", redirect_uris=[CALLBACK])
    return OAuthClientProvider(
        f"{url}/mcp", metadata, kept, redirect_handler=redirect, callback_handler=callback)


async def account(url, workspace, once, key, bearer):
    kept = Kept()
    ways = {"browser": await told(url, "cutter", auth=browser(url, kept, workspace, once))}
    # A token that is over is refreshed; the key is spent, so nobody could sign in once more.
    again = browser(url, kept, workspace, once)
    first = kept.tokens.refresh_token
    again.context.token_expiry_time = 1.0
    ways["refreshed"] = await told(url, "ketch", auth=again)
    ways["refreshed"]["rotated"] = kept.tokens.refresh_token != first
    ways["workspace_key"] = await told(url, "sloop", auth=ClientCredentialsOAuthProvider(
        f"{url}/mcp", Kept(), workspace, key, issuer=url))
    ways["bearer"] = await told(url, "yawl", headers={"Authorization": f"Bearer {bearer}"})
    return ways


def main():
    print(json.dumps(asyncio.run(asyncio.wait_for(account(*sys.argv[1:]), SECONDS_MAX))))


main()
