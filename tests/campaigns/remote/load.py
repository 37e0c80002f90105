"""What asks the nodes of a campaign: clients that write items, each with a word of its own, and readers that ask for
those. All that is asked and answered goes into the history."""

import random
import threading
import time

from history import now
from nodes import Asker, NoAnswer, NotAsked

WRITERS = 6
# A client that waits for longer goes on; what became of its write nobody knows.
WRITE_SECONDS_MAX = 12
READ_SECONDS_MAX = 8
# Some write often and some seldom: each waits up to half as long again as the one before.
WRITE_PAUSE = (0.05, 0.4)
SLOWER = 1.5
READ_PAUSE = (0.03, 0.1)
# What is asked for: shares of the last few that were acknowledged, of those of the last while, and of all.
LATELY = 30
A_WHILE = 600
WORDS = "lamp fog horn tide keeper boat wind reef signal log segment torn write page harbour beacon".split()

# Nothing was written, by what the answer says: reasons of errors, and what a store says that has not begun.
NOT_DONE = {"written_elsewhere", "workspace_unavailable", "writer_unreachable", "replica_behind", "too_many_requests"}
TRY_AGAIN = "it can be tried again"


class Shared:
    """What writers and readers know together."""

    def __init__(self, nodes, told, seed):
        self.nodes, self.told, self.seed = nodes, told, seed
        self.over = threading.Event()
        self.acknowledged = []
        self.leader = None
        self.failed = []

    def run(self, body, *arguments):
        """A thread that ends with `over`, and whose failure is kept."""
        def guarded():
            try:
                body(*arguments)
            except Exception as error:
                self.failed.append(error)
                raise

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread


class Load:
    def __init__(self, nodes, told, seed):
        self.shared = Shared(nodes, told, seed)
        self.threads = []

    def begin(self, writers=WRITERS, also=()):
        """Writers, a reader of each node, and what else shall run until the load ends."""
        for number in range(writers):
            self.threads.append(self.shared.run(write, self.shared, number))
        for node in self.shared.nodes:
            self.threads.append(self.shared.run(read, self.shared, node))
        self.threads += [self.shared.run(body) for body in also]

    def end(self):
        self.shared.over.set()
        for thread in self.threads:
            thread.join()
        if self.shared.failed:
            raise self.shared.failed[0]


def write(shared, number):
    dice = random.Random(f"{shared.seed} writer {number}")
    asker, count = Asker(WRITE_SECONDS_MAX), 0
    while not shared.over.wait(dice.uniform(*WRITE_PAUSE) * SLOWER ** number):
        leader = shared.leader
        node = leader if leader and dice.random() < 0.6 else dice.choice(shared.nodes)
        token = f"w{shared.seed:x}c{number}n{count}"
        count += 1
        write_one(shared, asker, node, f"{token} {' '.join(dice.choices(WORDS, k=12))}", token, number)


def write_one(shared, asker, node, text, token, client):
    """Writes an item and tells what became of it; gives that."""
    asked = now()
    item = None
    try:
        status, _, body = asker.call(node, "brain_remember", {"text": text, "kind": "note"})
        outcome, why, item = judged(status, body)
    except NotAsked as error:
        outcome, why = "refused", str(error)
    except NoAnswer as error:
        outcome, why = "unsure", str(error)
    answered = now()
    shared.told.tell("write", client=client, node=node.name, token=token, asked=asked, answered=answered,
                     outcome=outcome, why=why, item=item)
    if outcome == "acknowledged":
        shared.leader = node
        shared.acknowledged.append((token, item, answered))
    elif shared.leader is node:
        shared.leader = None
    return outcome


def judged(status, body):
    """Outcome, why, and the item, of an answer over MCP."""
    result = body.get("result", {})
    if status == 200 and result and not result.get("isError"):
        return "acknowledged", None, result["structuredContent"]["item"]["id"]
    why = reason(body)
    return "refused" if why.split(":")[0] in NOT_DONE or TRY_AGAIN in why else "unsure", f"{status} {why}", None


def reason(body):
    """Why an answer over MCP is no good one: its reason, and its words."""
    if "error" in body:
        return f"{body['error'].get('data', {}).get('reason')}: {body['error']['message']}"
    if "result" in body:
        said = " ".join(part.get("text", "") for part in body["result"].get("content", []))
        return f"{body['result'].get('_meta', {}).get('recalld/reason')}: {said}"
    return f"{body.get('detail')}"


def read(shared, node):
    dice = random.Random(f"{shared.seed} reader {node.name}")
    asker = Asker(READ_SECONDS_MAX)
    while not shared.over.wait(dice.uniform(*READ_PAUSE)):
        if not shared.acknowledged:
            continue
        back = dice.choice((LATELY, LATELY, A_WHILE, len(shared.acknowledged)))
        token, item, _ = dice.choice(shared.acknowledged[-back:])
        read_one(shared.told, asker, node, token, item)


def read_one(told, asker, node, token, item):
    """Asks a node for an item, and tells what it said; whether it was there."""
    asked, why = now(), None
    try:
        status, fields, body = asker.call(node, "get_item_tool", {"item_id": item})
        found = found_in(status, body)
        if found is None:
            why = f"{status} {reason(body)}"
    except (NotAsked, NoAnswer) as error:
        found, why = None, str(error)
    answered = now()
    if found is None:
        told.tell("unread", node=node.name, asked=asked, answered=answered, why=why)
        # It is away: others need the processors more than it needs questions.
        time.sleep(READ_PAUSE[1])
    else:
        # Of the moment at which the call began; the field is of when its request was looked at.
        stale = body["result"].get("_meta", {}).get("recalld/stale-seconds", fields.get("stale-seconds"))
        told.tell("read", node=node.name, token=token, asked=asked, answered=answered, found=found,
                  stale=None if stale is None else int(stale))
    return bool(found)


def found_in(status, body):
    """Whether an item was found; nothing where the answer does not say that."""
    result = body.get("result")
    if status != 200 or not result:
        return None
    if not result.get("isError"):
        return True
    return False if result.get("_meta", {}).get("recalld/reason") == "not_found" else None
