#!/usr/bin/env python3
"""That the checker can fail: a history in which all is well passes, and each that breaks one rule is noticed by it."""

import copy
import sys

from checker import Checker
from erasing import words

NODES = ["writer", "standby"]


def record(number, epoch=1, kind="step", chain="local", **more):
    writer = NODES[(epoch - 1) % 2]
    return {"is": "record", "chain": chain, "at": float(number), "number": number, "content": f"content{number}",
            "hash": f"hash{number}", "previous": f"hash{number - 1}", "kind": kind, "epoch": epoch, "node": writer,
            "run": f"run{epoch}", "seq": number, "made": number * 1000, **more}


def write(token, asked, outcome="acknowledged", node="writer", took=0.1):
    return {"is": "write", "client": 0, "node": node, "token": token, "asked": asked, "answered": asked + took,
            "outcome": outcome, "item": f"item-{token}", "why": None}


def read(token, asked, found=True, stale=None, node="writer"):
    return {"is": "read", "node": node, "token": token, "asked": asked, "answered": asked + 0.01, "found": found,
            "stale": stale}


def key(name, asked, outcome="acknowledged", what="key"):
    return {"is": what, "node": "writer", "name": name, "asked": asked, "answered": asked + 0.1, "outcome": outcome,
            "why": None}


def use(name, asked, status=200, node="standby"):
    return {"is": "use", "node": node, "name": name, "asked": asked, "answered": asked + 0.01, "status": status}


def call(outcome, asked):
    return {"is": "call", "node": "writer", "tenant": "spent0", "asked": asked, "answered": asked + 0.01,
            "outcome": outcome, "why": None}


def shown(where, tokens, as_of=None):
    return {"is": "shown", "where": where, "as_of": as_of, "tokens": tokens}


def well():
    """A run of 60 s: the writer is killed at 20, the standby writes from 28 on, and all is quiet at 50."""
    tokens = ["b", "c", "last"]
    return [
        {"is": "run", "at": 0.0, "wall": 1000.0, "seed": 1, "mode": "folder", "lease": 5, "stale": 10, "nodes": NODES},
        record(1, kind="take"), record(2, kind="full"), record(3),
        {"is": "newest", "chain": "local", "at": 4.0, "number": 3},
        write("a", 10.0), write("b", 15.0), read("a", 12.0), read("b", 15.5, found=False, stale=1, node="standby"),
        read("b", 17.0, stale=1, node="standby"), write("refused", 18.0, outcome="refused", node="standby"),
        write("unsure", 19.9, outcome="unsure"),
        {"is": "fault", "kind": "kill-writer", "target": "writer", "at": 20.0, "until": 30.0, "steady": True},
        record(4, epoch=2, kind="take"), record(5, epoch=2),
        {"is": "newest", "chain": "local", "at": 29.0, "number": 5},
        {"is": "again", "chain": "local", "at": 30.0, "number": 2, "content": "content2"},
        write("c", 28.0, node="standby"),
        {"is": "erase", "node": "standby", "token": "a", "asked": 40.0, "answered": 40.5, "done": True, "why": None},
        read("a", 41.0, found=False), read("a", 41.0, stale=9, node="standby"),
        *(record(number, chain="control-", kind=kind) for number, kind in ((1, "take"), (2, "full"), (3, "step"))),
        record(4, epoch=2, chain="control-", kind="take"),
        {"is": "newest", "chain": "control-", "at": 29.0, "number": 4},
        {"is": "again", "chain": "control-", "at": 30.0, "number": 3, "content": "content3"},
        key("k0", 10.0), key("k1", 11.0), key("k2", 21.0, outcome="refused"), key("k3", 21.5, outcome="unsure"),
        use("k0", 10.2), use("k1", 11.2), use("k0", 21.0, status=503), use("k1", 22.0, status=None),
        key("k1", 30.0, what="revoke", outcome="unsure"), use("k1", 30.2, status=401), key("k1", 31.0, what="revoke"),
        use("k1", 41.0), use("k1", 42.0, status=401),
        {"is": "quota", "tenant": "spent0", "limit": 2, "at": 12.0},
        *(call(outcome, 13.0) for outcome in ("given", "given", "refused", "unsure")),
        {"is": "quiet", "at": 50.0}, key("k4", 50.5), write("last", 51.0, node="standby"),
        *({"is": "caught_up", "node": node, "asked": 52.0, "at": 52.1} for node in NODES),
        *(use(name, 53.0, status, node) for name, status in (("k0", 200), ("k1", 401), ("k4", 200)) for node in NODES),
        *({"is": "listed", "node": node, "at": 54.0, "names": ["k4", "k3", "k1", "k0"]} for node in NODES),
        *(shown(node, tokens) for node in NODES), shown("restored", tokens),
        {"is": "everywhere", "at": 58.0, "good": True, "open": [], "said": {}, "why": ""},
        {"is": "proven", "where": "the remote", "token": "a", "good": True, "said": ""},
        *({"is": "searched", "where": where, "erased": {}, "others": 3} for where in ["the remote", *NODES]),
        shown("restored as of then", ["b"], as_of=1021.0), {"is": "verified", "good": True, "said": ""},
    ]


def changed(where, **fields):
    """The well one with other fields in the first event of which `where` is part."""
    def change(events):
        event = next(one for one in events if where.items() <= one.items())
        event.update(fields)
    return change


def without(where):
    def change(events):
        events.remove(next(one for one in events if where.items() <= one.items()))
    return change


def only(keeps):
    def change(events):
        events[:] = [one for one in events if keeps(one)]
    return change


def with_(*more):
    return lambda events: events.extend(more)


BROKEN = [
    ("a lost write", "C1", changed({"is": "shown", "where": "standby"}, tokens=["c", "last"])),
    ("one that is not restored", "C1", changed({"is": "shown", "where": "restored"}, tokens=["b", "last"])),
    ("what was shown once is gone", "C1", with_(read("unsure", 25.0))),
    ("a node that nobody looked at", "C1", without({"is": "shown", "where": "writer"})),
    ("a restore as of a time without what was there", "C1", changed({"where": "restored as of then"}, tokens=[])),
    ("a restore as of a time with what came later", "C1",
     changed({"where": "restored as of then"}, tokens=["b", "c"])),
    ("nothing restored as of a time", "C1", without({"where": "restored as of then"})),
    ("a record with two contents", "C2", changed({"is": "again", "number": 2}, content="other")),
    ("a record of the control store with two contents", "C2",
     changed({"is": "again", "chain": "control-"}, content="other")),
    ("a chain that nobody saw", "C2", only(lambda one: one.get("chain") != "control-")),
    ("an epoch of the control store that falls", "C2", with_(record(5, chain="control-"))),
    ("a pointer of the control store moved back", "C2",
     with_({"is": "newest", "chain": "control-", "at": 31.0, "number": 3})),
    ("two writers of the control store in one epoch", "C3",
     changed({"is": "record", "chain": "control-", "number": 3}, node="standby")),
    ("a record that names another one before it", "C2", changed({"is": "record", "number": 3}, previous="hash1")),
    ("an epoch that falls", "C2", with_(record(6, epoch=1))),
    ("a take of the same epoch", "C2", with_(record(6, epoch=2, kind="take"))),
    ("commits that fall", "C2", changed({"is": "record", "number": 5}, seq=1)),
    ("a pointer moved back", "C2", with_({"is": "newest", "chain": "local", "at": 31.0, "number": 4})),
    ("a record behind the newest", "C2", lambda events: events.append(events.pop(events.index(record(3))))),
    ("two writers in one epoch", "C3", changed({"is": "record", "number": 5}, node="writer")),
    ("two runs in one epoch", "C3", changed({"is": "record", "number": 3}, run="run7")),
    ("an answer older than it says", "C4", changed({"is": "read", "found": False}, asked=16.2)),
    ("a writer that does not show what it acknowledged", "C4", with_(read("a", 12.0, found=False))),
    ("a remote that is not as it must be", "C5", changed({"is": "verified"}, good=False)),
    ("a remote that nobody looked through", "C5", without({"is": "verified"})),
    ("what was refused is there", "C6", changed({"is": "shown", "where": "standby"},
                                                tokens=["b", "c", "last", "refused"])),
    ("what was erased is shown", "C7", changed({"is": "shown", "where": "standby"}, tokens=["a", "b", "c", "last"])),
    ("what was erased is on a disk", "C7", changed({"is": "searched", "where": "standby"}, erased={"a": "store/log"})),
    ("a search that finds nothing at all", "C7", changed({"is": "searched", "where": "the remote"}, others=0)),
    ("a node that nobody searched", "C7", without({"is": "searched", "where": "writer"})),
    ("what was erased is not gone in time", "C7", changed({"is": "everywhere"}, good=False)),
    ("erased, and nobody asked whether it is gone", "C7", without({"is": "everywhere"})),
    ("the program finds something of it", "C7", changed({"is": "proven"}, good=False)),
    ("gone before it was to be erased", "C4", with_(read("a", 30.0, found=False))),
    ("a fail-over that takes too long", "C8", changed({"is": "write", "token": "c"}, asked=40.0, answered=40.1)),
    ("nothing is written once all is quiet", "C8", changed({"is": "write", "token": "last"}, outcome="unsure")),
    ("a node that stays behind", "C8", without({"is": "caught_up", "node": "standby"})),
    ("a run that was never quiet", "C8", without({"is": "quiet"})),
    ("no key can be made once all is quiet", "C8", changed({"is": "key", "name": "k4"}, answered=90.0)),
    ("a key that is refused at once", "C9", with_(use("k0", 10.3, status=401))),
    ("a key that is refused during a fail-over", "C9", changed({"is": "use", "status": 503}, status=401)),
    ("a key that was revoked and is taken for too long", "C9", changed({"is": "use", "asked": 41.0}, asked=41.2)),
    ("a key that a node never takes", "C9", changed({"is": "use", "name": "k0", "asked": 53.0}, status=503)),
    ("a key that a node never refuses", "C9", changed({"is": "use", "name": "k1", "asked": 53.0}, status=503)),
    ("a key that a node was not shown", "C9", without({"is": "use", "name": "k4"})),
    ("a key that is not listed", "C9", changed({"is": "listed"}, names=["k4", "k1"])),
    ("a key that was refused and is listed", "C9", changed({"is": "listed"}, names=["k4", "k2", "k1", "k0"])),
    ("a node that lists no keys", "C9", without({"is": "listed"})),
    ("no key was ever revoked", "C9", only(lambda one: one.get("name") != "k1")),
    ("a quota that is overrun", "C10", with_(call("given", 14.0))),
    ("no call was let through", "C10", only(lambda one: one["is"] != "call")),
]


def main():
    wrong = [f"all is well, and {fault}" for fault in Checker(well()).faults()]
    for name, rule, change in BROKEN:
        events = copy.deepcopy(well())
        change(events)
        found = Checker(events).faults()
        if not found or not all(fault.startswith(rule) for fault in found):
            wrong.append(f"{name}: {rule} is to be broken, and found was {found or 'nothing'}")
    if words(10, b"...beaconwac1n23 is wac0n5\0wac1n2") != {"wac1n23", "wac0n5", "wac1n2"}:
        wrong.append("words of items are not found where texts follow one another")
    for fault in wrong:
        print("FAILED: the checker:", fault)
    if not wrong:
        print(f"the checker passes what is well, and notices {len(BROKEN)} histories that are not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
