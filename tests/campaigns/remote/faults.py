"""What is done to the nodes of a campaign, and to what they keep things in: drawn from a seed, one after the other.

Each kind comes once, in an order that is drawn, before any comes a second time. A kind is `WHAT-WHOM`:

    kill      SIGKILL, and begun again after a while          wipe   the same, and its disk is empty
    end       SIGTERM, and begun again after a while          stop   SIGSTOP for longer than its lease, then SIGCONT
    cut       it reaches nothing of what nodes keep things in; its clients still reach it

    writer    whoever writes                                  standby  the other one that may
    replica   one of those that only follow
    store     the object store, or members of the coordinator: stopped, paused, slow, and failing in the middle
"""

import random
import signal
import subprocess
import threading

from history import now

# Of a node that is away, in leases, so that some come back before anybody takes over and some do not.
AWAY = (0.2, 2.5)
# Of one that is stopped or cut off: it comes back after others may have taken over.
LAPSED = (1.4, 2.6)
STORE_SECONDS = (2, 9)
WRONG_SECONDS = (5, 12)
# What requests to the store come to for a while.
FLAKY = {"refuse": 0.05, "half": 0.05, "done": 0.08, "lost": 0.08, "late": 0.05, "late_by": 6}
SLOW = (0.05, 1.2)
# Until the next fault once a node was hit, and once nothing was done to any.
REST = (3, 8)

NODES = [f"{what}-{whom}" for what in ("kill", "wipe", "stop") for whom in ("writer", "standby", "replica")]


class Player:
    """Plays faults until it is told to end; what is broken then is mended."""

    def __init__(self, nodes, load, told, seed, lease, between=None, services=None):
        self.nodes, self.load, self.told, self.lease = nodes, load, told, lease
        # The proxy, where there is one; and what is done to services, as commands: {name: {what: (hurt, heal)}}.
        self.between, self.services = between, services
        self.dice = random.Random(f"{seed} faults")
        self.over = threading.Event()
        self.kinds = [*NODES, "end-writer", "end-replica"]
        if between:
            self.kinds += ["cut-writer", "cut-standby", "cut-replica", "slow-store", "flaky-store", "flaky-slow-store"]
        self.kinds += [f"{what}-{name}" for name, acts in (services or {}).items() for what in acts]

    def run(self, seconds):
        """Faults for so long, each mended before the next one."""
        until = now() + seconds
        while now() < until:
            for kind in self.dice.sample(self.kinds, len(self.kinds)):
                # What takes long is not begun near the end; all is drawn as it would be else.
                rest, draw = self.dice.uniform(*REST), self.dice.random()
                if now() + self.lease > until:
                    return
                self.play(kind, draw)
                self.over.wait(rest)

    def play(self, kind, draw):
        what, _, whom = kind.rpartition("-")
        between = (lambda span: span[0] + draw * (span[1] - span[0]))
        steady, at = self.is_steady(), now()
        if whom in ("writer", "standby", "replica"):
            node = self.whom(whom, draw)
            if node is None:
                return
            target = node.name
            print(f"  {kind} {target}", flush=True)
            getattr(self, what)(node, between)
        else:
            target = whom
            print(f"  {kind}", flush=True)
            getattr(self, {"store": "wrong"}.get(whom, "service"))(what, whom, between)
        self.told.tell("fault", kind=kind, target=target, at=at, until=now(), steady=steady, draw=draw)

    def is_steady(self):
        """Whether all nodes are there, and something was acknowledged just now."""
        last = self.load.shared.acknowledged[-1:]
        return bool(last) and now() - last[0][2] < 1 and all(node.address for node in self.nodes)

    def whom(self, whom, draw):
        if whom == "replica":
            replicas = [node for node in self.nodes if not node.may_write]
            return replicas[int(draw * len(replicas))]
        leader = self.load.shared.leader
        if leader is None:
            return None
        if whom == "writer":
            return leader
        return next((node for node in self.nodes if node.may_write and node is not leader), None)

    def wait(self, seconds):
        self.over.wait(seconds)

    def kill(self, node, between):
        node.end(signal.SIGKILL)
        self.wait(self.lease * between(AWAY))
        node.begin()

    def wipe(self, node, between):
        node.end(signal.SIGKILL)
        node.wipe()
        self.wait(self.lease * between(AWAY))
        node.begin()

    def end(self, node, between):
        code = node.end(signal.SIGTERM)
        if code != 0:
            self.told.tell("ended_badly", node=node.name, code=code)
        self.wait(self.lease * between(AWAY))
        node.begin()

    def stop(self, node, between):
        node.send(signal.SIGSTOP)
        self.wait(self.lease * between(LAPSED))
        node.send(signal.SIGCONT)

    def cut(self, node, between):
        self.between.cut(node.place, True)
        self.wait(self.lease * between(LAPSED))
        self.between.cut(node.place, False)

    def wrong(self, what, _, between):
        faults = {}
        if "slow" in what:
            faults["delay"] = SLOW
        if "flaky" in what:
            faults.update(FLAKY)
        self.between.go_wrong(faults)
        self.wait(between(WRONG_SECONDS))
        self.between.go_wrong({})

    def service(self, what, name, between):
        hurt, heal = self.services[name][what]
        subprocess.run(hurt, check=True, stdout=subprocess.DEVNULL)
        self.wait(between(STORE_SECONDS))
        subprocess.run(heal, check=True, stdout=subprocess.DEVNULL)
