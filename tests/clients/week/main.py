"""A week of an operator's work over the real MCP endpoint: main.py PROGRAM SCRATCH LIBRARY TRANSCRIPT NODE AFTERWORD.

PROGRAM is `recalld`, SCRATCH an empty folder, LIBRARY libfaketime's, TRANSCRIPT a file for all that was asked and
answered; NODE runs AFTERWORD, the story of the TypeScript client. Ends with 1 at the first answer that is not what it
must be.
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import friday
import monday
import saturday
import sunday
import thursday
import tuesday
import wednesday
from house import House
from story import Story, Unlike, holds, same

# What takes longer hangs.
WEEK_SECONDS_MAX = 600
AFTERWORD_SECONDS_MAX = 60

# On the last Sunday of October clocks go back. Each day in another era, and ended in another way.
DAYS = [
    (tuesday, 20, "handshake", "end"),
    (wednesday, 21, "per-request", "kill"),
    (thursday, 22, "handshake", "end"),
    (friday, 23, "per-request", "kill"),
    (saturday, 24, "handshake", "kill"),
    (sunday, 25, "per-request", "end"),
    (monday, 26, "handshake", "kill"),
]
# A rule of the operator's beside the initial ones.
RULES = """
[[rule]]
name = "harbour/embargo"
gate = "embargo"
actions = ["read", "export"]
verdict = "deny"

[[rule]]
name = "harbour/no-marketing"
kind = "agent_state"
purpose = "marketing"
actions = ["read"]
verdict = "deny"
"""


def settle(house):
    """Settings with rules of the operator's own; the root that is read."""
    house.root.mkdir()
    status, rules, said = house.command("policy", "show")
    if status != 0:
        raise RuntimeError(f"recalld policy show: {said}")
    (house.scratch / "rules.toml").write_text(rules + RULES, encoding="utf-8")
    house.settings.write_text('policy.file = "rules.toml"\n', encoding="utf-8")


async def live(story, what, era, end):
    """One day; then the server ends, by its word or without, and everything that was kept is asked again."""
    async with story.session(era):
        await what.day(story)
        before = await story.ask_kept()
    getattr(story.house, end)()
    story.house.start()
    async with story.session(era):
        after = await story.ask_kept()
    for (tool, arguments), one, other in zip(story.kept, before, after, strict=True):
        same(f"after {end}, {tool} {arguments} answers as before", other, one)


def afterword(house, command):
    """The TypeScript client goes on where the week ended."""
    done = subprocess.run([*command, house.url], text=True, capture_output=True, timeout=AFTERWORD_SECONDS_MAX)
    holds("the afterword ends well", done.returncode == 0, done.stderr[-3000:])
    print(done.stdout, end="")


async def week(story, command):
    for what, date, era, end in DAYS:
        story.date = date
        story.house.at(story.hour(8))
        if story.house.server is None:
            story.house.start()
        began = time.monotonic()
        story.tell(f"# {what.__name__.title()}\n\n{what.__doc__}\n")
        await live(story, what, era, end)
        print(f"{what.__name__:10} {era:12} {time.monotonic() - began:5.1f} s, {len(story.kept):3} questions asked again "
              f"after {'SIGTERM' if end == 'end' else 'SIGKILL'}", flush=True)
    afterword(story.house, command)
    story.house.end()
    monday.prove(story)
    same("tools that the week has no use for", sorted(set(story.listed) - story.called), [])


def innermost(error):
    """What went wrong, out of the groups that the client's tasks put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def main():
    program, scratch, library, transcript, *command = sys.argv[1:]
    with open(transcript, "w", encoding="utf-8") as told:
        house = House(program, Path(scratch), library)
        story = Story(house, told)
        house.at(story.hour(7))
        try:
            settle(house)
            asyncio.run(asyncio.wait_for(week(story, command), WEEK_SECONDS_MAX))
        except Exception as error:
            if not isinstance(innermost(error), Unlike):
                raise innermost(error) from None
            sys.exit(f"{innermost(error)}\n(all that was said is in {transcript})")
        finally:
            house.leave()
    print(f"{len(story.receipts)} calls of {len(story.called)} tools")


main()
