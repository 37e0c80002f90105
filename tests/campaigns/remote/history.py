"""What happened in a campaign, as lines of JSON: written while it happens, read by the checker.

Each line has `is`, and times are seconds of one clock of this machine that never goes back.

    run       seed, mode, lease (s), stale (s; how old what is told may be), nodes, wall (what a date of 0 on that
              clock is)
    write     client, node, token, asked, answered, outcome (acknowledged, refused, unsure), item, why
    read      node, token, asked, answered, found, stale (s; none where the node writes what it shows)
    unread    node, asked, answered, why: a question that had no answer
    newest    chain, at, number: the newest number of the chain, at each look
    record    chain, at, number, content, hash, previous, kind, epoch, node, run, seq, made: when it was seen first
    again     chain, at, number, content: when it was read once more
    edge      chain, at, boundary, turn, erased, gone, kept
    fault     kind, target, at, until, steady (all was well before), settings of it
    quiet     at: from here on nothing is done to anybody
    caught_up node, asked, at: the node shows what was acknowledged before it was asked
    shown     where, as_of (date or none), tokens: all that is there at the end
    verified  good, said
    erase     node, token, asked, answered, done, why: an item whose word has to go, and what came of asking once
    collect   node, asked, answered, code, why
    forgotten node, code, said: one whose disk was wiped; removed: node, folder: a store that was set aside
    everywhere  at, good, open (words that nobody said are erased), said, why: whether all that was erased is gone
    proven    where, token, good, said: what the program finds of it
    key       node, name, asked, answered, outcome, why: a key that was to be made
    revoke    node, name, asked, answered, outcome, why
    use       node, name, asked, answered, status (none where there was no answer): a key that was shown
    listed    node, at, names (of keys that are listed; none where the node did not say)
    quota     tenant, limit, at: a workspace that has so many calls from then on
    call      node, tenant, asked, answered, outcome (given, refused, unsure), why: a call that counts
    searched  where, erased (word: in what), others (how many): words of items in the bytes that are there at the end
"""

import json
import threading
import time


def now():
    """The clock of all times in a history."""
    return time.monotonic()


class History:
    """The file that grows; for many threads."""

    def __init__(self, path):
        self.path = path
        self._file = open(path, "w", buffering=1 << 16)
        self._lock = threading.Lock()

    def tell(self, what, **fields):
        line = json.dumps({"is": what, **fields}, separators=(",", ":"))
        with self._lock:
            self._file.write(line + "\n")

    def close(self):
        with self._lock:
            self._file.close()


def read(path):
    """All events of a file, in the order in which they were told."""
    with open(path) as file:
        return [json.loads(line) for line in file]
