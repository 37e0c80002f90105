#!/usr/bin/env python3
"""Whether an S3 store lets exactly one of many create an object: tests/campaigns/remote/race.py [OPTIONS].

In each round all racers put the same new key with `If-None-Match: *` at the same moment, each bytes of its own over a
connection that is warm. Told are the winners of each round, the statuses seen, and whose bytes are read afterwards.
The store may be away for a while in between: between rounds it is waited for. Then what else a store must do: refuse
a key that is there, show in lists and in ranged reads what was just written, and no more what was removed. Where the
store is, AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION say. Ends with 0 where all is
well, with 1 where something is not, with 2 where it could not be tried.
"""

import argparse
import collections
import os
import sys
import threading
import time

from s3 import Client, Settings

# Names as a store of ours has them: digits, lower case, and these.
NAME = "t/a-tenant_0.9/data/00000000000000000001-0123456789abcdef.00000"
# A store that is away for longer does not come back.
AWAY_SECONDS_MAX = 60
FAULTS_TOLD_MAX = 8


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--racers", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=4096, help="of each object that is raced for")
    parser.add_argument("--bucket", default=os.environ.get("REMOTE_BUCKET", "recalld"))
    given = parser.parse_args()
    for name, least, most in (("rounds", 1, 100_000), ("racers", 2, 256), ("bytes", 16, 64 << 20)):
        value = getattr(given, name)
        if not least <= value <= most:
            parser.error(f"--{name} is {value}: it must be {least} to {most}")
    return given


def insist(ask):
    """The first answer that is one: none, and those that say that the store cannot answer now, are asked for again."""
    until = time.monotonic() + AWAY_SECONDS_MAX
    while True:
        answer = ask()
        if 0 < answer.status < 500:
            return answer
        if time.monotonic() > until:
            print(f"the store was away for {AWAY_SECONDS_MAX} s: {answer}", file=sys.stderr)
            sys.stdout.flush()
            os._exit(2)
        time.sleep(0.05)


class Round:
    """One key and what its racers were told."""

    def __init__(self, client, bucket, key, bodies, answers):
        self.answers = answers
        self.winners = [racer for racer, answer in enumerate(answers) if answer.good]
        self.there = insist(lambda: client.get(bucket, key))
        self.owner = bodies.index(self.there.body) if self.there.good and self.there.body in bodies else None

    def fault(self):
        """What is wrong with it, or nothing."""
        if len(self.winners) > 1:
            return f"{len(self.winners)} winners"
        if self.winners and self.winners[0] != self.owner:
            return f"racer {self.winners[0]} was told that it won, and the bytes are those of {self.owner}"
        if self.owner is None and (self.there.status != 404 or all(lost(answer) for answer in self.answers)):
            return f"nobody's bytes are there ({self.there})"
        return None

    @property
    def is_untold(self):
        """Won by somebody who was not told so: one must read back to know."""
        return not self.winners and self.owner is not None


def lost(answer):
    """Whether somebody was told that the key was there."""
    return answer.status in (409, 412)


def race(settings, given, prefix):
    """All rounds; yields each."""
    clients = [Client(settings) for _ in range(given.racers)]
    gate = threading.Barrier(given.racers)
    reader = Client(settings)
    for number in range(given.rounds):
        key = f"{prefix}race/{number:020}"
        bodies = [f"{number:06} {racer:06} ".encode().ljust(given.bytes, b".") for racer in range(given.racers)]
        answers = [None] * given.racers

        def run(racer):
            client = clients[racer]
            insist(lambda: client.head(given.bucket, prefix + "nothing"))
            gate.wait()
            answers[racer] = client.create(given.bucket, key, bodies[racer])

        threads = [threading.Thread(target=run, args=(racer,)) for racer in range(given.racers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield Round(reader, given.bucket, key, bodies, answers)


def tell_race(settings, given, prefix):
    """Runs and tells the race; gives what was wrong."""
    winners, statuses, faults, untold, empty = collections.Counter(), collections.Counter(), [], 0, 0
    began = time.monotonic()
    for number, one in enumerate(race(settings, given, prefix)):
        winners[len(one.winners)] += 1
        statuses.update(str(answer) for answer in one.answers)
        untold += one.is_untold
        empty += one.owner is None
        if fault := one.fault():
            faults.append(f"round {number}: {fault}")
    took = time.monotonic() - began
    print(f"race: {given.rounds} rounds of {given.racers} racers, {given.bytes} bytes each, {took:.1f} s")
    for count in sorted(winners):
        print(f"  winners {count}: {winners[count]} rounds")
    for status, count in statuses.most_common():
        print(f"  status {status}: {count}")
    if untold:
        print(f"  {untold} rounds were won by one who was not told so")
    if empty:
        print(f"  {empty} rounds were won by nobody")
    return faults


def manners(client, bucket, prefix):
    """What else the store must do: yields what was asked, whether it was so, and what was seen."""
    body = bytes(range(256)) * 4096
    key = prefix + NAME

    first = client.create(bucket, key, body)
    yield "a new key is created", first.good, first
    again = client.create(bucket, key, b"other bytes")
    kept = client.get(bucket, key)
    yield "a key that is there is not created", lost(again), again
    yield "and keeps its bytes", kept.good and kept.body == body, f"{kept}, {len(kept.body)} bytes"
    # What follows is not to fail because that did.
    client.put(bucket, key, body)
    about = client.head(bucket, key)
    yield "its length is told", about.headers.get("content-length") == str(len(body)), about

    part = client.get(bucket, key, "1000-1099")
    yield "a range is read", part.status == 206 and part.body == body[1000:1100], part
    told = part.headers.get("content-range")
    yield "and told", told == f"bytes 1000-1099/{len(body)}", told
    tail = client.get(bucket, key, "-100")
    yield "the end is read", tail.status == 206 and tail.body == body[-100:], tail
    beyond = client.get(bucket, key, f"{len(body)}-{len(body) + 9}")
    yield "a range behind the end is refused", beyond.status == 416, beyond

    keys = [f"{prefix}list/{number:020}" for number in range(25)]
    for number, name in enumerate(keys):
        client.put(bucket, name, b".")
        found = client.names(bucket, prefix + "list/", at_once=10)
        if found != keys[:number + 1]:
            yield "what was just written is listed, in order", False, f"{found} after {number + 1}"
            break
    else:
        yield "what was just written is listed, in order", True, f"{len(keys)} times"
    found = client.names(bucket, prefix + "list/", after=keys[20])
    yield "a list begins behind a key", found == keys[21:], len(found) if isinstance(found, list) else found

    client.put(bucket, key, b"newer")
    newer = client.get(bucket, key)
    yield "a plain put replaces, at once", newer.body == b"newer", newer
    gone = client.remove(bucket, key)
    yield "a key is removed", gone.good, gone
    missing = client.get(bucket, key)
    yield "and is not there", missing.status == 404, missing
    client.remove(bucket, keys[3])
    found = client.names(bucket, prefix + "list/")
    yield "nor listed", found == keys[:3] + keys[4:], len(found) if isinstance(found, list) else found
    once_more = client.create(bucket, key, b"anew")
    yield "and can be created once more", once_more.good, once_more


def clear(client, bucket, prefix):
    names = client.names(bucket, prefix)
    for name in names if isinstance(names, list) else ():
        client.remove(bucket, name)


def main():
    given = arguments()
    settings = Settings.of_environment()
    client = Client(settings)
    prefix = f"race-{time.time_ns():x}-{os.getpid()}/"
    client.make_bucket(given.bucket)
    ready = client.put(given.bucket, prefix + "ready", b"")
    if not ready.good:
        print(f"{given.bucket} at {os.environ['AWS_ENDPOINT_URL']} takes no object: {ready}", file=sys.stderr)
        return 2
    faults = tell_race(settings, given, prefix)
    # The connection was idle during the race: it may be gone.
    insist(lambda: client.head(given.bucket, prefix + "nothing"))
    for asked, is_so, seen in manners(client, given.bucket, prefix):
        print(f"{'ok  ' if is_so else 'NOT '} {asked}: {seen}")
        if not is_so:
            faults.append(asked)
    clear(client, given.bucket, prefix)
    for fault in faults[:FAULTS_TOLD_MAX]:
        print("FAILED:", fault)
    if len(faults) > FAULTS_TOLD_MAX:
        print(f"FAILED: and {len(faults) - FAULTS_TOLD_MAX} more")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
