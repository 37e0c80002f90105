#!/usr/bin/env python3
"""Judges a history of a campaign: tests/campaigns/remote/checker.py HISTORY. Ends with 1 where a rule is broken.

    C1  what was acknowledged, or shown by any node, is at every node and in what is restored; restored as of a time
        is what was acknowledged before it, and nothing that was asked for after it
    C2  of each chain, that of the control store too: a number has one content; `previous` fits; epochs, commits and
        dates never fall; the newest number never does, and none is filled in behind it
    C3  an epoch has one node, in one run
    C4  an answer that may be S seconds old has all that was acknowledged S seconds before it was asked for
    C5  `recalld remote verify --bytes` finds all as it must be
    C6  what was refused before anything was written is nowhere
    C7  what was erased is gone in time once all is quiet: no object and no disk has a word of it, and nobody shows it
    C8  writes are taken again in time after the writer went, and all nodes show the newest once all is quiet
    C9  a key that was made opens every node that answers, until somebody wants it to be revoked; one that was revoked
        opens none once its copy would be too old; what was refused is not there
    C10 never are more calls let through than a quota has
"""

import bisect
import collections
import itertools
import sys

import history

# What may pass between an answer's arrival and its time being taken.
MEASURED_WITHIN = 0.05
# From the lapse of a lease (one and a quarter of it) to the first write at another node: a look, and the opening.
# Processes of one busy machine stand still for a while now and then.
TAKEN_WITHIN = 8
# An orderly end gives the workspace away.
GIVEN_WITHIN = 12
# All is quiet: a node that was away has that long after the fail-over to be at the newest.
CAUGHT_UP_WITHIN = 20
# A command that asks in vain is ended after this, and asked elsewhere.
ENDED_WITHIN = 20
FAULTS_OF_A_KIND_MAX = 8
CHAINS = ("local", "control-")
LEAVES = ("kill-writer", "wipe-writer", "stop-writer", "cut-writer")
ENDS = "end-writer"


def lapse(run):
    """How long it may take until another node writes."""
    return 1.25 * run["lease"] + TAKEN_WITHIN


class Checker:
    """A history, sorted by what it tells."""

    def __init__(self, events):
        self.by = collections.defaultdict(list)
        for event in events:
            self.by[event["is"]].append(event)
        self.run = self.by["run"][0]
        self.acknowledged = [one for one in self.by["write"] if one["outcome"] == "acknowledged"]
        # What somebody wanted to be erased: when that was asked for first. From then on it may be there or not.
        self.erased = {}
        for one in self.by["erase"]:
            self.erased.setdefault(one["token"], one["asked"])
        self.asked = sorted((one["asked"], one["answered"]) for one in self.acknowledged)
        # The first answer of all that were asked for then or later.
        self.first = list(itertools.accumulate((answered for _, answered in reversed(self.asked)), min))[::-1]

    def faults(self):
        """All that is wrong, in words."""
        found = []
        for rule in (self.c1_shown, self.c1_as_of, self.c2_records, self.c2_newest, self.c3, self.c4, self.c5,
                     self.c6, self.c7_gone, self.c7_left, self.c8_taken, self.c8_caught_up, self.c8_keys, self.c9_used,
                     self.c9_at_the_end, self.c9_listed, self.c10):
            wrong = list(rule())
            found += wrong[:FAULTS_OF_A_KIND_MAX]
            if len(wrong) > FAULTS_OF_A_KIND_MAX:
                found.append(f"{wrong[0][:2]}: and {len(wrong) - FAULTS_OF_A_KIND_MAX} more")
        return found

    def c1_shown(self):
        places = {one["where"]: set(one["tokens"]) for one in self.by["shown"] if one["as_of"] is None}
        for where in [*self.run["nodes"], "restored"]:
            if where not in places:
                yield f"C1: nobody looked at what is shown by {where} at the end"
        seen = {}
        for one in self.by["read"]:
            if one["found"]:
                seen.setdefault(one["token"], f"shown by {one['node']} at {one['answered']:.3f}")
        for one in self.acknowledged:
            seen[one["token"]] = f"acknowledged by {one['node']} at {one['answered']:.3f}"
        for where, tokens in places.items():
            for token, how in seen.items():
                if token not in tokens and token not in self.erased:
                    yield f"C1: {token} was {how} and is not at {where}"

    def c1_as_of(self):
        if not any(shown["as_of"] is not None for shown in self.by["shown"]):
            yield "C1: nothing was restored as of a time"
        for shown in self.by["shown"]:
            if shown["as_of"] is None:
                continue
            at, tokens = shown["as_of"] - self.run["wall"], set(shown["tokens"])
            for one in self.by["write"]:
                before = one["outcome"] == "acknowledged" and one["answered"] < at - MEASURED_WITHIN
                if before and one["token"] not in tokens and one["token"] not in self.erased:
                    yield f"C1: {one['token']} was acknowledged {at - one['answered']:.3f} s before what is restored"
                if one["asked"] > at + MEASURED_WITHIN and one["token"] in tokens:
                    yield f"C1: {one['token']} was asked for {one['asked'] - at:.3f} s after what is restored"

    def c2_records(self):
        contents = {}
        for one in [*self.by["record"], *self.by["again"]]:
            was = contents.setdefault((one["chain"], one["number"]), one["content"])
            if was != one["content"]:
                yield f"C2: record {one['number']} of {one['chain']} had two contents"
        for chain in CHAINS:
            yield from self.c2_one_by_one(chain)

    def of(self, chain, what):
        return [one for one in self.by[what] if one["chain"] == chain]

    def c2_one_by_one(self, chain):
        records = sorted(self.of(chain, "record"), key=lambda one: one["number"])
        if not records:
            yield f"C2: nobody saw a record of {chain}"
        for before, after in zip(records, records[1:]):
            number = f"{after['number']} of {chain}"
            if after["number"] == before["number"] + 1 and after["previous"] != before["hash"]:
                yield f"C2: record {number} does not name the hash of the one before"
            for what in ("epoch", "seq", "made"):
                if after[what] < before[what]:
                    yield f"C2: {what} falls from {before[what]} to {after[what]} with record {number}"
            if after["kind"] == "take" and after["epoch"] <= before["epoch"]:
                yield f"C2: record {number} takes the epoch {after['epoch']}, and the one before is of it"

    def c2_newest(self):
        for chain in CHAINS:
            newest = 0
            for one in self.of(chain, "newest"):
                if one["number"] < newest:
                    yield f"C2: the newest number of {chain} falls from {newest} to {one['number']} at {one['at']:.3f}"
                newest = max(newest, one["number"])
            edges = sorted((one["at"], one["boundary"]) for one in self.of(chain, "edge"))
            newest = 0
            for one in self.of(chain, "record"):
                boundary = max((boundary for at, boundary in edges if at <= one["at"]), default=0)
                if boundary < one["number"] < newest:
                    yield f"C2: record {one['number']} of {chain} was not there when {newest} was"
                newest = max(newest, one["number"])

    def c3(self):
        writers = {}
        for one in self.by["record"]:
            writer = writers.setdefault((one["chain"], one["epoch"]), (one["node"], one["run"]))
            if writer != (one["node"], one["run"]):
                what = f"epoch {one['epoch']} of {one['chain']}"
                yield f"C3: {what} is written by {writer} and by {(one['node'], one['run'])}"

    def c4(self):
        acknowledged = {one["token"]: one["answered"] for one in self.acknowledged}
        for one in self.by["read"]:
            at = acknowledged.get(one["token"])
            if one["found"] or at is None or self.erased.get(one["token"], one["answered"]) < one["answered"]:
                continue
            age = one["asked"] - at
            if age > (one["stale"] or 0):
                yield (f"C4: {one['node']} said at {one['answered']:.3f} that its answer was {one['stale']} s old, and "
                       f"{one['token']}, acknowledged {age:.3f} s before it was asked, was not in it")

    def c5(self):
        if not self.by["verified"]:
            yield "C5: nobody looked through the remote"
        for one in self.by["verified"]:
            if not one["good"]:
                yield f"C5: {one['said']}"

    def c6(self):
        refused = {one["token"]: one for one in self.by["write"] if one["outcome"] == "refused"}
        for shown in self.by["shown"]:
            for token in refused.keys() & set(shown["tokens"]):
                one = refused[token]
                yield f"C6: {token} was refused by {one['node']} ({one['why']}) and is at {shown['where']}"

    def c7_gone(self):
        if self.erased and not self.by["everywhere"]:
            yield "C7: nobody looked whether what was erased is gone"
        for one in self.by["everywhere"]:
            if not one["good"]:
                yield f"C7: not gone everywhere: {one['open'] or one['said']} {one['why']}"
        for one in self.by["proven"]:
            if not one["good"]:
                yield f"C7: {one['token']} at {one['where']}: {one['said']}"

    def c7_left(self):
        for one in self.by["searched"]:
            for token, name in one["erased"].items():
                yield f"C7: {token} was erased and is in {name} of {one['where']}"
            if not one["others"]:
                yield f"C7: the search finds no word of any item in {one['where']}, and so shows nothing"
        searched = {one["where"] for one in self.by["searched"]}
        for where in ["the remote", *self.run["nodes"]] if self.erased else []:
            if where not in searched:
                yield f"C7: nobody searched {where}"
        for shown in self.by["shown"]:
            for token in self.erased.keys() & set(shown["tokens"]):
                yield f"C7: {token} was erased and is shown by {shown['where']}"

    def taken(self, at):
        """How long after a time the first write was acknowledged that was asked for since."""
        place = bisect.bisect_left(self.asked, (at,))
        return self.first[place] - at if place < len(self.asked) else float("inf")

    def fail_overs(self):
        """What the writer was done that was well, along with all others, and how long nothing was written then."""
        for one in self.by["fault"]:
            if one["steady"] and (one["kind"] in LEAVES or one["kind"] == ENDS):
                yield one, self.taken(one["at"])

    def c8_taken(self):
        for one, took in self.fail_overs():
            if took > (GIVEN_WITHIN if one["kind"] == ENDS else lapse(self.run)):
                yield f"C8: {one['kind']} at {one['at']:.3f}: the next write was taken after {took:.1f} s"
        for one in self.by["quiet"]:
            if self.taken(one["at"]) > lapse(self.run):
                yield f"C8: all was quiet, and the next write was taken after {self.taken(one['at']):.1f} s"

    def c8_caught_up(self):
        quiet = self.by["quiet"][0]["at"] if self.by["quiet"] else None
        if quiet is None:
            yield "C8: it was never quiet"
            return
        found = {one["node"]: one["at"] - quiet for one in self.by["caught_up"]}
        for node in self.run["nodes"]:
            if node not in found:
                yield f"C8: {node} was never at the newest"
            elif found[node] > lapse(self.run) + CAUGHT_UP_WITHIN:
                yield f"C8: {node} was at the newest {found[node]:.1f} s after all was quiet"

    def c8_keys(self):
        made = [one["answered"] for one in self.by["key"] if one["outcome"] == "acknowledged"]
        for one in self.by["quiet"]:
            took = min((at for at in made if at > one["at"]), default=float("inf")) - one["at"]
            if took > lapse(self.run) + ENDED_WITHIN:
                yield f"C8: all was quiet, and the next key was made after {took:.1f} s"

    def keys(self):
        """By name, when a key was made, and when somebody wanted it to be revoked and knew that it is."""
        made = {one["name"]: one["answered"] for one in self.by["key"] if one["outcome"] == "acknowledged"}
        wanted, revoked = {}, {}
        for one in self.by["revoke"]:
            wanted.setdefault(one["name"], one["asked"])
            if one["outcome"] == "acknowledged":
                revoked.setdefault(one["name"], one["answered"])
        return made, wanted, revoked

    def c9_used(self):
        made, wanted, revoked = self.keys()
        never = float("inf")
        for one in self.by["use"]:
            name, asked = one["name"], one["asked"]
            if one["status"] == 401 and made.get(name, never) < asked and wanted.get(name, never) > one["answered"]:
                yield f"C9: {one['node']} refused {name} at {asked:.3f}, made {asked - made[name]:.3f} s before"
            late = asked - revoked.get(name, never)
            if one["status"] == 200 and late > self.run["stale"] + MEASURED_WITHIN:
                yield f"C9: {one['node']} took {name} at {asked:.3f}, revoked {late:.3f} s before"

    def c9_at_the_end(self):
        made, wanted, revoked = self.keys()
        quiet = self.by["quiet"][0]["at"] if self.by["quiet"] else 0
        if not made or not revoked:
            yield "C9: no key was made, or none revoked, and so nothing is shown"
        last = {(one["node"], one["name"]): one["status"] for one in self.by["use"] if one["asked"] > quiet}
        for name, node in itertools.product(made, self.run["nodes"]):
            status = last.get((node, name))
            if status != (401 if name in revoked else 200) and (name in revoked or name not in wanted):
                what = "was revoked" if name in revoked else "is good"
                yield f"C9: {name} {what}, and once all was quiet {node} said {status} to it"

    def c9_listed(self):
        made = self.keys()[0]
        refused = {one["name"]: one for one in self.by["key"] if one["outcome"] == "refused"}
        listed = {one["node"]: one["names"] for one in self.by["listed"]}
        for node in self.run["nodes"]:
            names = listed.get(node)
            if names is None:
                yield f"C9: nobody knows which keys {node} has at the end"
                continue
            for name in made.keys() - set(names):
                yield f"C9: {name} was made and is not listed by {node}"
            for name in refused.keys() & set(names):
                one = refused[name]
                yield f"C9: {name} was refused by {one['node']} ({one['why']}) and is listed by {node}"

    def c10(self):
        given = collections.Counter(one["tenant"] for one in self.by["call"] if one["outcome"] == "given")
        if not given:
            yield "C10: no call was let through, and so nothing is shown"
        for one in self.by["quota"]:
            count = given[one["tenant"]]
            if count > one["limit"]:
                yield f"C10: {count} calls of {one['tenant']} were let through, and it has {one['limit']}"

    def tell(self):
        """What the history has, for people."""
        writes = collections.Counter(one["outcome"] for one in self.by["write"])
        reads = collections.Counter("followers" if one["stale"] is not None else "the writer"
                                    for one in self.by["read"])
        print("writes:", told(writes), "; answers of", told(reads), "; no answer to", len(self.by["unread"]))
        for chain in CHAINS:
            records = self.of(chain, "record")
            kinds, epochs = collections.Counter(one["kind"] for one in records), {one["epoch"] for one in records}
            again = len(self.of(chain, "again"))
            print(f"records of {chain}: {told(kinds)}; {len(epochs)} epochs, {again} records read again")
        for what in ("key", "revoke"):
            print(f"{what}s:", told(collections.Counter(one["outcome"] for one in self.by[what])))
        print("keys shown:", told(collections.Counter(one["status"] or "no answer" for one in self.by["use"])))
        calls = collections.Counter(one["outcome"] for one in self.by["call"])
        print(f"calls: {told(calls)}; of quotas: {sum(one['limit'] for one in self.by['quota'])}")
        print("faults:", told(collections.Counter(one["kind"] for one in self.by["fault"])))
        done = collections.Counter("done" if one["done"] else "not" for one in self.by["erase"])
        collected = collections.Counter("well" if one["code"] == 0 else "not" for one in self.by["collect"])
        print(f"erasures: {len(self.erased)} items; asked for: {told(done)}; collections: {told(collected)}")
        for one, took in self.fail_overs():
            print(f"  {one['kind']} at {one['at'] - self.run['at']:.1f} s: the next write after {took:.1f} s")


def told(counter):
    return ", ".join(f"{count} {what}" for what, count in sorted(counter.items(), key=str)) or "none"


def main():
    if len(sys.argv) != 2:
        sys.exit("checker.py HISTORY")
    checker = Checker(history.read(sys.argv[1]))
    checker.tell()
    found = checker.faults()
    for fault in found:
        print("FAILED:", fault)
    if not found:
        print("nothing is wrong with it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
