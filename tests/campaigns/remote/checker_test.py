#!/usr/bin/env python3
"""That the checker can fail: a history in which all is well passes, and each that breaks one rule is noticed by it."""

import copy
import sys

from checker import Checker
from erasing import words

NODES = ["writer", "standby"]


def record(number, epoch=1, kind="step", **more):
    writer = NODES[(epoch - 1) % 2]
    return {"is": "record", "at": float(number), "number": number, "content": f"content{number}",
            "hash": f"hash{number}", "previous": f"hash{number - 1}", "kind": kind, "epoch": epoch, "node": writer,
            "run": f"run{epoch}", "seq": number, "made": number * 1000, **more}


def write(token, asked, outcome="acknowledged", node="writer", took=0.1):
    return {"is": "write", "client": 0, "node": node, "token": token, "asked": asked, "answered": asked + took,
            "outcome": outcome, "item": f"item-{token}", "why": None}


def read(token, asked, found=True, stale=None, node="writer"):
    return {"is": "read", "node": node, "token": token, "asked": asked, "answered": asked + 0.01, "found": found,
            "stale": stale}


def shown(where, tokens, as_of=None):
    return {"is": "shown", "where": where, "as_of": as_of, "tokens": tokens}


def well():
    """A run of 60 s: the writer is killed at 20, the standby writes from 28 on, and all is quiet at 50."""
    tokens = ["b", "c", "last"]
    return [
        {"is": "run", "at": 0.0, "wall": 1000.0, "seed": 1, "mode": "folder", "lease": 5, "nodes": NODES},
        record(1, kind="take"), record(2, kind="full"), record(3), {"is": "newest", "at": 4.0, "number": 3},
        write("a", 10.0), write("b", 15.0), read("a", 12.0), read("b", 15.5, found=False, stale=1, node="standby"),
        read("b", 17.0, stale=1, node="standby"), write("refused", 18.0, outcome="refused", node="standby"),
        write("unsure", 19.9, outcome="unsure"),
        {"is": "fault", "kind": "kill-writer", "target": "writer", "at": 20.0, "until": 30.0, "steady": True},
        record(4, epoch=2, kind="take"), record(5, epoch=2), {"is": "newest", "at": 29.0, "number": 5},
        {"is": "again", "at": 30.0, "number": 2, "content": "content2"}, write("c", 28.0, node="standby"),
        {"is": "erase", "node": "standby", "token": "a", "asked": 40.0, "answered": 40.5, "done": True, "why": None},
        read("a", 41.0, found=False), read("a", 41.0, stale=9, node="standby"),
        {"is": "quiet", "at": 50.0}, write("last", 51.0, node="standby"),
        *({"is": "caught_up", "node": node, "asked": 52.0, "at": 52.1} for node in NODES),
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
    ("a record that names another one before it", "C2", changed({"is": "record", "number": 3}, previous="hash1")),
    ("an epoch that falls", "C2", with_(record(6, epoch=1))),
    ("a take of the same epoch", "C2", with_(record(6, epoch=2, kind="take"))),
    ("commits that fall", "C2", changed({"is": "record", "number": 5}, seq=1)),
    ("a pointer moved back", "C2", with_({"is": "newest", "at": 31.0, "number": 4})),
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
