"""Who changes what all nodes share, and lives by it, while nodes are hurt: keys are made and revoked, and shown to every
node, and calls are made until a quota is used up. All that is asked and answered goes into the history."""

import json
import random
import subprocess
import time

from history import now
from load import READ_SECONDS_MAX, reason
from nodes import Asker, NoAnswer, NotAsked

# The workspace whose keys come and go.
KEYS_OF = "keys"
MAKE_PAUSE = (0.3, 1.2)
# Of what is made or revoked: one in three is a revocation.
REVOKED = 1 / 3
# Then none is made any more, so that the look at all of them at the end has a bound.
KEYS_MAX = 300
SHOW_PAUSE = (0.1, 0.4)
# Of the keys that are shown: those that changed last, else any.
LATELY = 4
# Calls of a workspace whose quota is to be used up; at each node some are made at a time.
LIMIT = 60
CALLS_AT_A_TIME = 3
# So often that a quota is used up has to be said before there is a workspace with another one. Each node may have
# something left, or not know yet that nothing is.
USED_UP_TIMES = 10
# Calls of a node that crashed are given again once its block is over, after 600 s: until then none is.
QUOTA_SECONDS_MAX = 400
# A command that takes longer is ended; what became of it nobody knows.
COMMAND_SECONDS_MAX = 20
# What commands say that changed nothing.
NOT_THERE = "the node is not there"
NOT_DONE = (NOT_THERE, "do it there", "ask there", "one is about to", "follows another node's",
            "shared with other nodes", "there is no workspace")
BEGIN_SECONDS_MAX = 60


class Keys:
    def __init__(self, nodes, shared, told, program, seed):
        self.nodes, self.shared, self.told, self.program, self.seed = nodes, shared, told, program, seed
        self.writers = [node for node in nodes if node.may_write]
        # Who took the last change.
        self.node = self.writers[0]
        # Keys that were made, by name: what is shown, and the id by which it is revoked. And those that somebody wanted
        # to be revoked, with whether it was said that they are.
        self.made, self.revoked = {}, {}
        self.count = 0
        # The workspace whose quota is being used up, and how often it was said that it is.
        self.spent, self.used_up, self.quotas = None, 0, 0

    def bodies(self):
        """What is to run until the load ends."""
        return [self.change, *((lambda node=node: self.live(node)) for node in self.nodes)]

    def begin(self):
        """The workspaces are there before anybody is hurt."""
        until = now() + BEGIN_SECONDS_MAX
        while self.command(self.node, "tenant", "create", KEYS_OF, "--plan", "team")[0] != "acknowledged":
            if now() > until:
                raise SystemExit(f"FAILED: no tenant could be made in {BEGIN_SECONDS_MAX} s")
            self.other_way()
        self.next_quota()

    def change(self):
        """Makes keys, revokes some, and makes the next quota once one is used up."""
        dice = random.Random(f"{self.seed} keys")
        while not self.shared.over.wait(dice.uniform(*MAKE_PAUSE)):
            if self.spent is None or self.used_up >= USED_UP_TIMES or now() > self.spent[2] + QUOTA_SECONDS_MAX:
                self.next_quota()
            open_ = [name for name in self.made if name not in self.revoked]
            # Now and then at the one that has to refuse it.
            node = self.node if dice.random() < 0.8 else dice.choice(self.writers)
            if dice.random() < REVOKED and open_:
                self.revoke(node, dice.choice(open_))
            elif len(self.made) < KEYS_MAX:
                self.make(node)

    def make(self, node):
        name, asked = f"k{self.count}", now()
        self.count += 1
        outcome, said, why = self.command(node, "key", "issue", KEYS_OF, "--kind", "bearer", "--name", name)
        if outcome == "acknowledged":
            self.made[name] = said["secret"], said["id"]
        self.told.tell("key", node=node.name, name=name, asked=asked, answered=now(), outcome=outcome, why=why)
        return outcome

    def revoke(self, node, name):
        # Before it is asked for: from here on nobody counts on it.
        asked = now()
        self.revoked.setdefault(name, False)
        outcome, _, why = self.command(node, "key", "revoke", KEYS_OF, self.made[name][1])
        self.revoked[name] |= outcome == "acknowledged"
        self.told.tell("revoke", node=node.name, name=name, asked=asked, answered=now(), outcome=outcome, why=why)

    def next_quota(self):
        """A workspace that nobody used yet. It is known with its quota, or not at all: the key is made last."""
        slug = f"spent{self.quotas}"
        self.quotas += 1
        self.spent = None
        for words in (("tenant", "create", slug, "--plan", "team"), ("quota", "set", slug, str(LIMIT)),
                      ("key", "issue", slug, "--kind", "bearer", "--name", "spends")):
            outcome, said, _ = self.command(self.node, *words)
            if outcome != "acknowledged":
                return
        at = now()
        self.told.tell("quota", tenant=slug, limit=LIMIT, at=at)
        self.spent, self.used_up = (slug, said["secret"], at), 0

    def other_way(self):
        """The node that was asked changes nothing, so it may be another one."""
        self.node = self.writers[(self.writers.index(self.node) + 1) % len(self.writers)]

    def command(self, node, *words):
        """Outcome, what it printed, and why not, of a command that changes something."""
        code, said, why = self.run(node, *words)
        if code == 0:
            self.node = node
            return "acknowledged", said, None
        if node is self.node:
            self.other_way()
        return "refused" if any(words in why for words in NOT_DONE) else "unsure", None, f"{code} {why}"

    def run(self, node, *words):
        """Code, what it printed, and what it said, of a command that asks a node."""
        command = [*node.place.before, self.program, *words, "--json", "--data", node.data]
        try:
            with node.asked:
                if node.address is None:
                    return None, None, NOT_THERE
                said = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                                      timeout=COMMAND_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return None, None, f"no end in {COMMAND_SECONDS_MAX} s"
        good = said.returncode == 0
        return said.returncode, json.loads(said.stdout) if good else None, said.stderr.strip()[-300:]

    def live(self, node):
        """Shows keys to a node, and makes calls there."""
        dice = random.Random(f"{self.seed} keys {node.name}")
        asker = Asker(READ_SECONDS_MAX, hosted=True)
        while not self.shared.over.wait(dice.uniform(*SHOW_PAUSE)):
            names = list(self.made)
            if names:
                self.show(asker, node, dice.choice(names[-LATELY:] if dice.random() < 0.5 else names))
            revoked = list(self.revoked)
            if revoked:
                self.show(asker, node, dice.choice(revoked))
            for _ in range(CALLS_AT_A_TIME):
                if self.spent:
                    self.spend(asker, node, *self.spent[:2])

    def show(self, asker, node, name):
        """What a node says to a key: a status, or nothing."""
        asked, status = now(), None
        try:
            status, _, _ = asker.mcp(node, "ping", {}, self.made[name][0])
        except (NotAsked, NoAnswer):
            pass
        self.told.tell("use", node=node.name, name=name, asked=asked, answered=now(), status=status)
        return status

    def spend(self, asker, node, tenant, key):
        asked, why = now(), None
        try:
            status, _, body = asker.call(node, "recall_stats", {}, key)
            if status == 200 and body.get("result", {}).get("isError") is False:
                outcome = "given"
            else:
                outcome, why = "refused", f"{status} {reason(body)}"
                self.used_up += why.startswith("200 quota_exceeded")
        except NotAsked as error:
            outcome, why = "refused", str(error)
        except NoAnswer as error:
            outcome, why = "unsure", str(error)
        self.told.tell("call", node=node.name, tenant=tenant, asked=asked, answered=now(), outcome=outcome, why=why)

    def finish(self, until):
        """All is quiet: one more key is made, what was to be revoked is, and every node is shown all of them until it
        says of each what it must."""
        while now() < until and self.make(self.node) != "acknowledged":
            time.sleep(SHOW_PAUSE[0])
        while now() < until and (left := [name for name, done in self.revoked.items() if not done]):
            self.revoke(self.node, left[0])
        for thread in [self.shared.run(self.finish_at, node, until) for node in self.nodes]:
            thread.join()
        if self.shared.failed:
            raise self.shared.failed[0]

    def finish_at(self, node, until):
        asker = Asker(READ_SECONDS_MAX, hosted=True)
        for name in self.made:
            wanted = 401 if name in self.revoked else 200
            while self.show(asker, node, name) != wanted and now() < until:
                time.sleep(SHOW_PAUSE[0])
        said = self.run(node, "key", "list", KEYS_OF)[1]
        names = [one["name"] for one in said["keys"]] if said else None
        self.told.tell("listed", node=node.name, at=now(), names=names)
