"""What each day of the week is told with: calls whose answers are held to what they must be, and questions that are
asked again.

The client holds each structured answer to the tool's `outputSchema` by itself. Whatever is asked and answered goes into
a transcript, for people to read.
"""

import contextlib
import json
import re
from datetime import datetime
from zoneinfo import ZoneInfo

from mcp import Client
from mcp.types import Implementation

MODES = {"handshake": "legacy", "per-request": "2026-07-28"}
# What an answer says of itself, or of when and how fast it was given, and not of what is remembered.
OF_THE_CALL = {"receipt", "took_ms", "grounding_token", "verified_at"}
TOKEN = re.compile("[A-Za-z0-9_-]{152}")
SHOWN_CHARS = 3000
BERLIN = ZoneInfo("Europe/Berlin")


class Unlike(Exception):
    """An answer is not what it must be."""


def holds(what, good, subject=None):
    """Goes on where `good` is so; `subject` is what is shown where it is not."""
    if not good:
        shown = subject if isinstance(subject, str) else json.dumps(subject, default=str)
        raise Unlike(f"{what}: {shown[:SHOWN_CHARS]}")


def same(what, found, wanted):
    holds(what, found == wanted, {"found": found, "wanted": wanted})


class Answer(dict):
    """The structured answer of a call, and the text beside it."""

    def __init__(self, structured, text):
        super().__init__(structured)
        self.text = text


def remembered(value):
    """The same without what tells of the call itself, at any depth; tokens have their own time in them."""
    if isinstance(value, dict):
        return {name: remembered(inner) for name, inner in value.items() if name not in OF_THE_CALL}
    if isinstance(value, list):
        return [remembered(inner) for inner in value]
    return TOKEN.sub("TOKEN", value) if isinstance(value, str) else value


class Story:
    """The week so far: the house, the client of the day, what was called, and what is to be asked again."""

    def __init__(self, house, transcript):
        self.house, self.transcript = house, transcript
        self.client, self.listed = None, []
        self.called, self.receipts, self.kept = set(), [], []
        # What days tell later ones: ids, tokens, paths.
        self.known = {}
        # Which day of October 2026 it is.
        self.date = 20

    def hour(self, hour, minute=0):
        """A moment of the day, by the clocks of Berlin."""
        return datetime(2026, 10, self.date, hour, minute, tzinfo=BERLIN)

    @contextlib.asynccontextmanager
    async def session(self, era):
        """A session of a client; answers are held to the schemas that it lists."""
        info = Implementation(name="week", version="1")
        async with Client(f"{self.house.url}/mcp", mode=MODES[era], client_info=info) as client:
            self.client = client
            self.listed = [tool.name for tool in (await client.list_tools()).tools]
            try:
                yield client
            finally:
                self.client = None

    def tell(self, text):
        self.transcript.write(text + "\n")
        self.transcript.flush()

    async def ask(self, tool, arguments, progress=None):
        result = await self.client.call_tool(tool, arguments, progress_callback=progress)
        holds(f"{tool} has one text", len(result.content) == 1, repr(result.content))
        text = result.content[0].text
        failed = ", refused" if result.is_error else ""
        self.tell(f"### {tool}{failed}\n\n`{json.dumps(arguments)}`\n\n```text\n{text}\n```\n")
        if not result.is_error:
            self.tell(f"```json\n{json.dumps(result.structured_content, indent=1)}\n```\n")
        return result, text

    async def call(self, tool, /, progress=None, **arguments):
        """The answer of a call that is not refused. Its receipt is kept."""
        result, text = await self.ask(tool, arguments, progress)
        holds(f"{tool} {arguments} is answered", not result.is_error, text)
        holds(f"the text of {tool} says something", bool(text.strip()), text)
        answer = Answer(result.structured_content, text)
        self.called.add(tool)
        self.receipts.append(answer["receipt"])
        return answer

    async def refused(self, tool, /, *words, **arguments):
        """A call that is refused, in words among which are these."""
        result, text = await self.ask(tool, arguments)
        holds(f"{tool} {arguments} is refused", result.is_error, text)
        for word in words:
            holds(f"the refusal of {tool} says {word!r}", word in text, text)
        return text

    def keep(self, tool, /, **arguments):
        """A question that is asked again after each end of the server."""
        self.kept.append((tool, arguments))

    async def ask_kept(self):
        """The answers to all questions that are kept, without what tells of the call itself."""
        answers = []
        for tool, arguments in self.kept:
            answer = await self.call(tool, **arguments)
            answers.append((remembered(dict(answer)), remembered(answer.text)))
        return answers
