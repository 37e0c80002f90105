"""What a workspace on object storage costs and how fast it is. Called by `run`, which is the command."""
import argparse
from pathlib import Path

import cold
import costs
import fail_over
import lag
import reads
from report import Report

PARTS = {"costs": costs, "lag": lag, "cold": cold, "fail_over": fail_over, "reads": reads}


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("mode", choices=("folder", "ceph"), nargs="?", default="folder", help="where objects are")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part, and those that are named as well")
    parser.add_argument("--rows", type=int, default=120_000, help="of the store that is started cold and read")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="of one turn")
    parser.add_argument("--quick", action="store_true", help="shows that everything works, and measures little")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--server", type=Path, help="recalld, if not the one that is built")
    parser.add_argument("--worker", type=Path, help="recall_worker, if not the one that is built")
    given = parser.parse_args()
    if given.quick:
        given.rows, given.rounds, given.seconds = 3_000, 1, 4
    for name, least, most in (("rows", 1000, 10_000_000), ("rounds", 1, 100), ("seconds", 1, 3600)):
        if not least <= getattr(given, name) <= most:
            parser.error(f"--{name} is {getattr(given, name)}: it must be {least} to {most}")
    return given


def main():
    given = arguments()
    report = Report()
    for name in given.only or PARTS:
        PARTS[name].measure(given, report)
    report.machine([])


if __name__ == "__main__":
    main()
