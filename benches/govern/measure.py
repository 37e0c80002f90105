"""What it costs to know who asks: the worker's rounds, as medians beside a baseline of the same run, and the bars."""
import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict

from bar import Bar, tell
from report import Report, shown, table

ADDED_US_MAX = 150  # the whole of authenticate, admit, policy and audit, at p50
OPERATOR = "a call of the operator, without a credential"
CALLS = ("a call with a bearer", "a call with an access token")
# Two medians of the same thing differ by so much on a machine with other work to do.
NOISE_US, NOISE_SHARE = 15.0, 0.15


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recalld", required=True, help="the program (run gives it)")
    parser.add_argument("--worker", required=True, help="benches/examples/govern_worker (run gives it)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=500, help="of each case in a round")
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--each", type=int, default=10, help="credentials of each workspace")
    parser.add_argument("--quick", action="store_true", help="shows that everything works, and judges nothing")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.calls, options.tenants, options.each = 2, 50, 20, 2
    return options


def rounds_of(options: argparse.Namespace) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """By case and size: p50 and p99 of each round."""
    command = [options.worker, "--recalld", options.recalld]
    for name in ("rounds", "calls", "tenants", "each"):
        command += [f"--{name}", str(getattr(options, name))]
    found: dict = defaultdict(lambda: defaultdict(list))
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in worker.stdout:
        said = json.loads(line)
        found[said["case"]][said["of"]].append((said["p50_us"], said["p99_us"]))
    if worker.wait():
        sys.exit("run: the worker failed")
    return found


def median(turns: list[tuple[float, float]], at: int = 0) -> float:
    return statistics.median(turn[at] for turn in turns)


def added(found: dict, case: str, size: str) -> float:
    """What a tenant's call takes longer than the operator's: the median of the rounds' differences."""
    pairs = zip(found[case][size], found[OPERATOR][size])
    return statistics.median(one[0] - other[0] for one, other in pairs)


def main() -> None:
    options, report = arguments(), Report()
    found = rounds_of(options)
    one, many = list(next(iter(found.values())))
    heads = ["p50 (p99), us", one, many, "ratio of p50"]
    rows = []
    for case, of in found.items():
        cells = [f"{shown(median(of[size]))} ({shown(median(of[size], 1))})" for size in (one, many)]
        ratio = statistics.median(b[0] / a[0] for a, b in zip(of[one], of[many]))
        rows.append([case, *cells, f"{ratio:.2f}"])
        for size in (one, many):
            for at, what in enumerate(("p50", "p99")):
                value = f"{median(of[size], at):.4g}"
                report.add("govern", f"{case}: {what}", size, value, "us", options.rounds)
    report.say(table(heads, rows))
    bars = []
    for case in CALLS:
        few, more = added(found, case, one), added(found, case, many)
        bars.append(Bar(f"{case}: added at p50, us, {one}", ADDED_US_MAX, few, at_most=True))
        bars.append(Bar(f"{case}: added at p50, us, {many}", ADDED_US_MAX, more, at_most=True))
        most = few + max(NOISE_US, NOISE_SHARE * abs(few))
        bars.append(Bar(f"{case}: with {many} as with {one}, us", round(most, 1), more, at_most=True))
        for size, value in ((one, few), (many, more)):
            report.add("govern", f"{case}: added", size, f"{value:.4g}", "us", options.rounds)
    tell(report, bars, "Too few calls to judge." if options.quick else "")
    report.machine([])


if __name__ == "__main__":
    main()
