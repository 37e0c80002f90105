"""Who erases items in a campaign and collects what no longer counts, while nodes are hurt; and who looks afterwards, as
a stranger does, whether anything is left in an object or on a node's disk."""

import json
import random
import re
import shutil
import subprocess
import time

from history import now

# Between two erasures; after so many, the writer is asked to collect as well.
PAUSE = (3, 12)
COLLECTED_EVERY = 4
# What is erased was acknowledged so long ago at least, and may be anything since the beginning.
SETTLED_SECONDS = 1
# A command that takes longer is ended; what became of it nobody knows.
COMMAND_SECONDS_MAX = 60
# Records go once they were known for five minutes; then nodes tell what they hold.
EVERYWHERE_SECONDS_MAX = 300 + 180
ASKED_AGAIN_SECONDS = 5
# Erased items of which `verify --erased` looks into all bytes; the search for words has all of them.
PROVEN_MAX = 3


def words(seed, content):
    """The words of items that stand anywhere in some bytes; texts may follow one another without anything between."""
    return {found.decode() for found in re.findall(rb"w%xc\d+n\d+(?!\d)" % seed, content)}


class Eraser:
    """Erases at whoever writes, and remembers which words have to go."""

    def __init__(self, nodes, shared, told, program, seed):
        self.nodes, self.shared, self.told, self.program = nodes, shared, told, program
        self.dice = random.Random(f"{seed} eraser")
        # By word, the item; and the words of which no answer said yet that they are erased.
        self.wanted, self.open = {}, set()

    def run(self):
        """Until the load ends."""
        count = 0
        while not self.shared.over.wait(self.dice.uniform(*PAUSE)):
            known = [one for one in self.shared.acknowledged if one[2] < now() - SETTLED_SECONDS]
            left = [(token, item) for token, item, _ in known if token not in self.wanted]
            if not left:
                continue
            token, item = self.dice.choice(left)
            # Before it is asked for: from here on nobody counts on it.
            self.wanted[token] = item
            self.open.add(token)
            self.erase(token)
            count += 1
            if count % COLLECTED_EVERY == 0:
                self.collect()

    def writer(self):
        """Whoever took the last write, while it is there."""
        node = self.shared.leader
        return node if node and node.address else None

    def erase(self, token):
        node, asked = self.writer(), now()
        if node is None:
            return
        code, report, why = self.command(node, "erase", self.wanted[token], "--reason", "campaign", "--yes")
        # It ends with 1 as long as something is left somewhere, and says what it did.
        done = report is not None and (report.get("erased") == 1 or report.get("already") == 1)
        if done:
            self.open.discard(token)
        self.told.tell("erase", node=node.name, token=token, asked=asked, answered=now(), done=done,
                       why=None if done else f"{code}: {why}")

    def collect(self):
        node, asked = self.writer(), now()
        if node is None:
            return
        code, _, why = self.command(node, "remote", "gc")
        self.told.tell("collect", node=node.name, asked=asked, answered=now(), code=code, why=why)

    def command(self, node, *words):
        """Code, what it printed as JSON, and what it said, of a command that asks a node."""
        command = [*node.place.before, self.program, *words, "--json", "--data", node.data]
        try:
            said = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return None, None, f"no end in {COMMAND_SECONDS_MAX} s"
        lines = said.stdout.strip().splitlines()
        # What is shown before anything is done, comes first.
        return said.returncode, json.loads(lines[-1]) if lines else None, said.stderr.strip()[-300:]

    def finish(self, remote, ask):
        """All is quiet: what is open is erased, and awaited until it is gone everywhere."""
        until, report, why = now() + EVERYWHERE_SECONDS_MAX, None, "nobody writes"
        while now() < until:
            for token in sorted(self.open):
                self.erase(token)
            node = self.writer()
            if node and not self.open:
                _, report, why = self.command(node, "erase", "--pending")
                if report and report.get("everywhere") is True:
                    break
                told = (report or {}).get("remote") or {}
                if told.get("state") == "nodes":
                    self.tidy(told["nodes"], remote, ask)
            time.sleep(ASKED_AGAIN_SECONDS)
        good = bool(report) and report.get("everywhere") is True and not self.open
        self.told.tell("everywhere", at=now(), good=good, open=sorted(self.open), said=report, why=why)

    def tidy(self, waited_for, remote, ask):
        """What is an operator's to do: a disk that was wiped is waited for no more, and stores that were set aside go."""
        nodes = {node.data.joinpath("node").read_text().strip() if not node.may_write else node.name: node
                 for node in self.nodes}
        for one in waited_for:
            node = nodes.get(one["node"])
            if one["done"]:
                continue
            if node is None:
                said = ask("remote", "forget-node", *remote.options(), one["node"])
                self.told.tell("forgotten", node=one["node"], code=said.returncode, said=said.stderr.strip()[-300:])
            elif one["left"]:
                for folder in node.data.rglob("store.left-*"):
                    self.told.tell("removed", node=node.name, folder=folder.name)
                    shutil.rmtree(folder)

    def prove(self, remote, ask):
        """What the program itself finds of some of them: in all objects, and on each node."""
        some = sorted(self.wanted)
        for token in self.dice.sample(some, min(PROVEN_MAX, len(some))):
            # Of others it may be the beginning.
            item, phrase = self.wanted[token], token + " "
            said = ask("remote", "verify", *remote.options(), "--erased", item, "--phrase", phrase)
            self.told.tell("proven", where="the remote", token=token, good=said.returncode == 0,
                           said=(said.stdout + said.stderr).strip()[-600:])
            for node in self.nodes:
                said = ask("verify", "--erased", item, "--text", phrase, "--data", node.data,
                           before=node.place.before)
                self.told.tell("proven", where=node.name, token=token, good=said.returncode == 0,
                               said=(said.stdout + said.stderr).strip()[-600:])

    def search(self, source):
        """What a stranger finds, byte by byte."""
        self.searched("the remote", source.everything())
        for node in self.nodes:
            files = (path for path in node.data.rglob("*") if path.is_file() and not path.is_symlink())
            self.searched(node.name, ((str(path.relative_to(node.data)), path.read_bytes()) for path in files))

    def searched(self, where, contents):
        erased, others = {}, set()
        for name, content in contents:
            for token in words(self.shared.seed, content):
                if token in self.wanted:
                    erased.setdefault(token, name)
                else:
                    others.add(token)
        # That it finds what has not been erased shows that it can find something.
        self.told.tell("searched", where=where, erased=erased, others=len(others))
