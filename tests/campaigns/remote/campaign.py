"""A workspace on several nodes, loaded and hurt, for remote.sh: campaign.py MODE SECONDS PROGRAM [SEED].

MODE is `folder`, `ceph` or `garage-etcd`; the store is up, and AWS_*, REMOTE_BUCKET and REMOTE_COORDINATOR say where.
"""

import argparse
import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import chain
import checker
import erasing
import history
import keys
import load
import nodes
from faults import Player
from history import now
from network import Between, Loopback, Namespace, can_be_cut, free_ports

HERE = Path(__file__).parent
WRITERS, REPLICAS = ("writer", "standby"), ("replica1", "replica2", "replica3")
# As short as a lease can be: more fail-overs in the same time.
LEASE = 5
# How old what a node tells may be: short, so that what was revoked is tried past that.
STALE = 10
# Writes that may be under way while nodes are seen to be at the newest.
LAST_AWAITED = 8
# From the last fault until all nodes must be at the newest; the checker has the bound.
QUIET_SECONDS_MAX = 90
# Whoever erases waits for minutes at the end, so a short run does not.
ERASES_FROM_SECONDS = 120
TOOK_SECONDS_MAX = 600


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("mode", choices=("folder", "ceph", "garage-etcd"))
    parser.add_argument("seconds", type=int)
    parser.add_argument("program", type=Path)
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    if not 10 <= given.seconds <= 24 * 3600:
        parser.error(f"SECONDS is {given.seconds}: it must be 10 to {24 * 3600}")
    return given


class Remote:
    """Where the workspace is, as nodes see it and as a stranger does."""

    def __init__(self, mode, folder):
        self.mode, self.folder = mode, folder
        self.prefix = f"campaign-{time.time_ns():x}"
        self.members = []
        if mode == "folder":
            self.address, self.stores = f"file://{folder}/objects", {}
            return
        store = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"])
        self.address = f"s3://{os.environ['REMOTE_BUCKET']}/{self.prefix}"
        self.stores = {"store": (store.hostname, store.port)}
        if mode == "garage-etcd":
            text = os.environ["REMOTE_COORDINATOR"].removeprefix("etcd://")
            self.members = [(host, int(port)) for host, port in (one.split(":") for one in text.split(","))]
            self.stores |= {f"member{number}": one for number, one in enumerate(self.members, 1)}

    def source(self):
        """What is there, for a stranger's eyes; for one thread."""
        if self.mode == "folder":
            return chain.Folder(self.folder / "objects")
        objects = chain.Bucket(os.environ["REMOTE_BUCKET"], self.prefix)
        return chain.Etcd(self.members, self.prefix, objects) if self.members else objects

    def coordinator(self, where):
        return ["--coordinator", f"etcd://{','.join(where)}/{self.prefix}"] if self.members else []

    def options(self):
        """Of a command that asks it directly."""
        return [self.address, *self.coordinator([f"{host}:{port}" for host, port in self.members])]

    def reached(self, between, place):
        """Options and environment of a node at a place."""
        if not between:
            return [], {}
        members = [between.reached(place, f"member{number}") for number in range(1, len(self.members) + 1)]
        return self.coordinator(members), {"AWS_ENDPOINT_URL": f"http://{between.reached(place, 'store')}"}

    def services(self):
        """What can be done to it: commands that hurt and heal."""
        def script(name, hurt, heal):
            return [[HERE / f"{name}.sh", *words.split()] for words in (hurt, heal)]

        if self.mode == "ceph":
            return {"ceph": {"pause": script("ceph", "pause", "resume"),
                             "kill": script("ceph", "stop-gateway KILL", "start-gateway")}}
        if self.mode == "garage-etcd":
            both = [["bash", "-c", f"{HERE}/etcd.sh {what} 2 && {HERE}/etcd.sh {what} 3"]
                    for what in ("pause", "resume")]
            return {"garage": {"pause": script("garage", "pause", "resume")},
                    "member": {"pause": script("etcd", "pause 1", "resume 1"), "kill": script("etcd", "kill 1", "start 1")},
                    "majority": {"pause": both}}
        return {}


def places(folder_alone):
    """Where each node stands."""
    names = [*WRITERS, *REPLICAS]
    why = "objects of a folder are reached without a network" if folder_alone else can_be_cut()
    if why:
        print(f"!!! no node has a network of its own: {why}", flush=True)
        return [Loopback(name, port) for name, port in zip(names, free_ports(len(names)))]
    return [Namespace(name, number) for number, name in enumerate(names)]


class Campaign:
    def __init__(self, given, folder):
        self.given, self.folder = given, folder
        self.told = history.History(folder / "history.jsonl")
        self.remote = Remote(given.mode, folder)
        self.places = places(given.mode == "folder")
        self.between = Between(self.places, self.remote.stores, given.seed) if self.remote.stores else None
        self.secret = folder / "nodes.secret"
        subprocess.run([given.program, "remote", "secret", self.secret], check=True, stdout=subprocess.DEVNULL)
        self.nodes = [self.node(place) for place in self.places]
        self.observers = {name: chain.Observer(self.remote.source(), self.told, given.seed, name)
                          for name in chain.CHAINS}
        self.load = load.Load(self.nodes, self.told, given.seed)
        self.keys = keys.Keys(self.nodes, self.load.shared, self.told, given.program, given.seed)
        self.eraser = None
        if given.seconds >= ERASES_FROM_SECONDS:
            self.eraser = erasing.Eraser(self.nodes, self.load.shared, self.told, given.program, given.seed)
        self.quiet_at = None
        self.wrong = []

    def node(self, place):
        options, environment = self.remote.reached(self.between, place)
        role = "--remote" if place.name in WRITERS else "--replica-of"
        host, port = place.hosted
        settings = {"secret_file": self.secret, "stale_seconds_max": STALE, "allow_http": "true",
                    "node_url": f"http://{self.between.reached(place, 'node') if self.between else f'{host}:{port}'}"}
        if place.name in WRITERS:
            settings |= {"lease_seconds": LEASE, "node": place.name}
        options += [word for name, value in settings.items() for word in ("--set", f"remote.{name}={value}")]
        return nodes.Node(place.name, place, self.folder, self.given.program,
                          [role, self.remote.address, *options], environment, place.hosted)

    def play(self):
        given = self.given
        names = [node.name for node in self.nodes]
        self.told.tell("run", at=now(), wall=time.time() - now(), seed=given.seed, mode=given.mode, lease=LEASE,
                       stale=STALE, nodes=names)
        self.nodes[0].begin()
        self.nodes[0].wait_ready()
        for node in self.nodes[1:]:
            node.begin()
        for node in self.nodes[1:]:
            node.wait_ready()
        self.keys.begin()
        for observer in self.observers.values():
            observer.start()
        self.load.begin(also=[*self.keys.bodies(), *([self.eraser.run] if self.eraser else [])])
        player = Player(self.nodes, self.load, self.told, given.seed, LEASE, self.between, self.remote.services())
        player.run(given.seconds)
        self.quiet()
        self.load.end()
        self.keys.finish(self.quiet_at + QUIET_SECONDS_MAX)
        if self.eraser:
            self.eraser.finish(self.remote, self.ask)
            self.write_on()
        self.all_shown()
        for observer in self.observers.values():
            observer.end()
        self.look()
        self.end()

    def quiet(self):
        """Nothing is done any more: all nodes come to the newest."""
        at = self.quiet_at = now()
        self.told.tell("quiet", at=at)
        asker = nodes.Asker(load.WRITE_SECONDS_MAX)
        writers = [node for node in self.nodes if node.may_write]
        token, outcome, count = None, None, 0
        while outcome != "acknowledged" and now() < at + QUIET_SECONDS_MAX:
            token, count = f"w{self.given.seed:x}last{count}", count + 1
            node = writers[count % 2]
            outcome = load.write_one(self.load.shared, asker, node, f"{token} is the last one", token, "last")
            time.sleep(0.1)
        if outcome != "acknowledged":
            return
        last = next(one for one in reversed(self.load.shared.acknowledged) if one[0] == token)
        behind = list(self.nodes)
        while behind and now() < at + QUIET_SECONDS_MAX:
            for node in list(behind):
                asked = now()
                if load.read_one(self.told, asker, node, last[0], last[1]):
                    self.told.tell("caught_up", node=node.name, asked=asked, at=now())
                    behind.remove(node)
            time.sleep(0.1)

    def write_on(self):
        """Some history behind the last erasure, to be restored as of."""
        asker, leader = nodes.Asker(load.WRITE_SECONDS_MAX), self.load.shared.leader
        for count in range(LAST_AWAITED // 2):
            token = f"w{self.given.seed:x}on{count}"
            load.write_one(self.load.shared, asker, leader or self.nodes[0], f"{token} is written on", token, "last")
            time.sleep(0.1)

    def all_shown(self):
        """What was written while nodes were looked at, is awaited at each of them."""
        until, asker = now() + QUIET_SECONDS_MAX, nodes.Asker(load.WRITE_SECONDS_MAX)
        erased = self.eraser.wanted if self.eraser else {}
        for token, item, *_ in self.load.shared.acknowledged[-LAST_AWAITED:]:
            if token in erased:
                continue
            for node in self.nodes:
                while not load.read_one(self.told, asker, node, token, item) and now() < until:
                    time.sleep(0.1)

    def look(self):
        """All that is there: at each node, and of the remote."""
        for node in self.nodes:
            self.shown(node.name, None, node.data, node.place.before)
        said = self.ask("remote", "verify", *self.remote.options(), "--bytes")
        self.told.tell("verified", good=said.returncode == 0, said=(said.stdout + said.stderr).strip()[-600:])
        self.restored("restored", None)
        if self.eraser:
            self.eraser.prove(self.remote, self.ask)
            self.eraser.search(self.remote.source())
        # As of some moment of the run, of which there is history still: from the record on that an erasure ended with.
        observer = self.observers["local"]
        first = observer.known.get(observer.erased + 1)
        wall = time.time() - now()
        began = first["made"] / 1e6 - wall if first else 0
        acknowledged = [at for *_, at in self.load.shared.acknowledged if at > began]
        if acknowledged:
            at = random.Random(self.given.seed).choice(acknowledged[len(acknowledged) // 4:])
            self.restored("restored as of then", at + wall)

    def restored(self, where, as_of):
        data = self.folder / where.replace(" ", "-")
        until = []
        if as_of is not None:
            until = ["--as-of", datetime.datetime.fromtimestamp(as_of, datetime.timezone.utc).isoformat()]
        said = self.ask("remote", "restore", *self.remote.options(), *until, "--data", data)
        if said.returncode != 0:
            self.wrong.append(f"{where}: restore ended with {said.returncode}: {said.stderr.strip()[-400:]}")
            return
        self.shown(where, as_of, data, ())
        shutil.rmtree(data)

    def shown(self, where, as_of, data, before):
        said = self.ask("export", "--data", data, before=before)
        if said.returncode != 0:
            self.wrong.append(f"{where}: export ended with {said.returncode}: {said.stderr.strip()[-400:]}")
            return
        items = (json.loads(line) for line in said.stdout.splitlines())
        tokens = [item["text"].split()[0] for item in items if item.get("type") == "item" and item["kind"] == "note"]
        self.told.tell("shown", where=where, as_of=as_of, tokens=tokens)

    def ask(self, *words, before=()):
        command = [*before, self.given.program, *words]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TOOK_SECONDS_MAX)

    def end(self):
        for node in reversed(self.nodes):
            code = node.end()
            if code != 0:
                self.wrong.append(f"{node.name} ended with {code}: {node.last_words()}")

    def close(self):
        """Whatever happened: no process and no network stays."""
        self.load.shared.over.set()
        for observer in self.observers.values():
            observer.over.set()
        for node in self.nodes:
            if node.process:
                node.end(9)
        if self.between:
            self.between.close()
        for place in self.places:
            place.close()
        self.told.close()


def judged(campaign):
    """What is wrong, from the history and from what nodes said."""
    found = campaign.wrong
    for node in campaign.nodes:
        found += [f"{node.name}: {line}" for line in node.panics()]
        for code, words in node.ended_alone:
            print(f"{node.name} ended by itself with {code}, and was begun again: {words.splitlines()[-1:]}")
            if code < 0:
                found.append(f"{node.name} was ended by signal {-code}: {words}")
    one = checker.Checker(history.read(campaign.told.path))
    one.tell()
    return found + one.faults()


def main():
    given = arguments()
    # So that whoever ends it leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    print(f"{given.mode}, {given.seconds} s, seed {given.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="recalld-remote-"))
    campaign = Campaign(given, folder)
    try:
        campaign.play()
    finally:
        campaign.close()
    found = judged(campaign)
    for fault in found:
        print("FAILED:", fault)
    if found:
        print(f"the history and what nodes said are in {folder}")
        return 1
    shutil.rmtree(folder)
    print("nothing that was acknowledged is lost, and no rule is broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
