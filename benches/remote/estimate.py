#!/usr/bin/env python3
"""What a fleet on object storage asks of it in a month, and what that costs: benches/remote/estimate.py [OPTIONS].

Counts per thousand writes and bytes per item are those that `benches/remote/run` measured; how often nodes look is as
docs/remote.md says. Prices are an example: put in your own.
"""

import argparse
import math

DAYS = 30
MINUTES = DAYS * 24 * 60
GB = 1e9
# Of an open store, docs/operations.md: memory that no file stands behind, and file cache for each embedding.
STORE_MEMORY_BYTES, CACHE_BYTES_EACH, NODE_MEMORY_BYTES = 20 << 20, 1.1 * 1024, 100 << 20
OPEN_STORES_MAX = 64
# Seconds between two looks of a follower that nobody asks, and of one that was asked in the last ten seconds.
COLD_SECONDS, WARM_SECONDS = 5, 0.25
# A sign of life comes every fifth of a lease, a look at those of others every fourth.
SIGNS_A_LEASE, LOOKS_A_LEASE = 5, 4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])

    def number(name, default, what):
        parser.add_argument(name, type=float, default=default, help=f"{what} [default: {default:g}]")

    number("--items", 1e9, "items of all tenants")
    number("--tenants", 1e5, "tenants")
    number("--writes-a-day", 1e7, "items written a day")
    number("--creations", 2040, "creations and puts for a thousand writes: one for its record, one for the ledger's entry")
    number("--bytes-sent", 4.9e6, "bytes sent for a thousand writes")
    number("--bytes-an-item", 2200, "bytes of an item on the storage")
    number("--history", 0.5, "share of that which is history: replaced, and kept for remote.keep_hours")
    number("--open-share", 0.01, "share of tenants that are open at a time: asked within the last 300 s")
    number("--openings-a-day", 5, "how often a tenant is opened a day")
    number("--opening-lists", 3, "lists of one opening")
    number("--opening-reads", 70, "reads of one opening: 7 where its writer gave it away, the steps as well where it writes on")
    number("--replicas", 1, "nodes that follow what one writes")
    number("--asked-share", 0.1, "share of the time in which an open tenant is asked: what follows it looks often then")
    number("--lease", 15, "remote.lease_seconds")
    number("--storage-price", 0.023, "of a GB for a month")
    number("--write-price", 0.005, "of a thousand creations, puts and lists")
    number("--read-price", 0.0004, "of a thousand reads")
    given = parser.parse_args()
    for name, value in vars(given).items():
        if value < 0 or not math.isfinite(value):
            parser.error(f"--{name.replace('_', '-')} is {value:g}: it must be 0 or more")
    if given.lease < 5:
        parser.error(f"--lease is {given.lease:g}: it must be 5 or more")
    return given


def main():
    given = arguments()
    opened = max(1, given.tenants * given.open_share)
    writers = math.ceil(opened / OPEN_STORES_MAX)
    nodes = writers * (1 + given.replicas)
    stored = given.items * given.bytes_an_item * (1 + given.history)
    openings = given.tenants * given.openings_a_day * DAYS * (1 + given.replicas)
    followed = opened * given.replicas * MINUTES * 60
    looks = followed * (given.asked_share / WARM_SECONDS + (1 - given.asked_share) / COLD_SECONDS)
    signs, sights = (writers * MINUTES * 60 / given.lease * each for each in (SIGNS_A_LEASE, LOOKS_A_LEASE))
    rows = [
        ("stored", stored / GB, "GB", stored / GB * given.storage_price),
        ("writes", given.writes_a_day * DAYS / 1000 * given.creations, "creations, puts", None),
        ("signs of life", signs, "puts", None),
        ("looks at signs of life: lists", sights, "lists", None),
        ("looks at signs of life: reads", writers * sights, "reads", None),
        ("openings: lists", openings * given.opening_lists, "lists", None),
        ("openings: reads", openings * given.opening_reads, "reads", None),
        ("looks of followers", looks, "reads", None),
        ("closed tenants", 0, "requests", 0.0),
    ]
    total = 0.0
    print("| a month | how many | | costs |\n|---|---|---|---|")
    for what, count, unit, price in rows:
        if price is None:
            price = count / 1000 * (given.read_price if unit == "reads" else given.write_price)
        total += price
        print(f"| {what} | {count:,.0f} | {unit} | {price:,.0f} |")
    print(f"| all | | | {total:,.0f} |\n")
    cache = opened * given.items / given.tenants * CACHE_BYTES_EACH
    print(f"{opened:,.0f} tenants are open at a time: {writers} nodes write them ({OPEN_STORES_MAX} stores each), {nodes} "
          "nodes in all.")
    memory = NODE_MEMORY_BYTES + OPEN_STORES_MAX * STORE_MEMORY_BYTES
    print(f"Each has {memory / GB:.1f} GB of memory of its own, and {cache * (1 + given.replicas) / nodes / GB:.1f} GB of file cache where answers "
          "shall be quick.")
    disk = given.items * given.bytes_an_item
    print(f"All items once on the nodes' disks: {disk / GB:,.0f} GB; what is open: "
          f"{disk * given.open_share / GB:,.1f} GB for each of {1 + given.replicas:g}.")
    print(f"Sent a month: {given.writes_a_day * DAYS / 1000 * given.bytes_sent / GB:,.0f} GB.")


if __name__ == "__main__":
    main()
