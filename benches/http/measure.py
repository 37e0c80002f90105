"""Requests a second of recalld's front end, axum, actix-web and nginx, in alternating turns of one run."""

import argparse
import csv
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from listening import scheduled
from servers import PING, start_all, stop_all

CASES = {"GET /health": ("/health", None), "POST /mcp": ("/mcp", PING)}
CONNECTIONS = (1, 64, 512)
FIGURE = re.compile(r"Requests/sec:\s+([\d.]+)")
LATE = re.compile(r"99%\s+([\d.]+)(us|ms|s)\b")
WRONG = re.compile(r"Non-2xx|Socket errors: (?!connect 0, read 0, write 0, timeout 0)")
MICROS = {"us": 1, "ms": 1e3, "s": 1e6}


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each server at each point (default 5)")
    parser.add_argument("--seconds", type=int, default=3, help="length of a turn (default 3)")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between turns (default 0.5)")
    parser.add_argument("--quick", action="store_true", help="one round of one second: shows that everything works")
    parser.add_argument(
        "--real-time", action="store_true",
        help="servers and load generator under `chrt -f 10`, for a machine with other work to do",
    )
    parser.add_argument("--only", action="append", metavar="SERVER", help="only this one, and others so named")
    parser.add_argument("--folder", help="where programs and data lie (run says)")
    for program in ("wrk", "nginx", "ours", "axum", "actix"):
        parser.add_argument(f"--{program}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 1
    return options


def turn(options, before, server, path, body, connections, threads):
    """Requests a second, the 99th percentile in us, and the server's processor time for each request in us."""
    script = Path(options.folder, "post.lua")
    if body:
        script.write_text(
            f"wrk.method = 'POST'\nwrk.body = [[{body}]]\nwrk.headers['Content-Type'] = 'application/json'\n"
        )
    command = [options.wrk, "--latency", "-t", str(min(threads, connections)), "-c", str(connections)]
    command += ["-d", f"{options.seconds}s", *(["-s", str(script)] if body else [])]
    worked, began = server.seconds(), time.monotonic()
    done = subprocess.run(
        [*before, *command, f"http://127.0.0.1:{server.port}{path}"], capture_output=True, text=True, check=True
    )
    took = time.monotonic() - began
    rate, late = FIGURE.search(done.stdout), LATE.search(done.stdout)
    if not rate or not late or WRONG.search(done.stdout):
        raise SystemExit(f"{server.name}, {path}, {connections} connections:\n{done.stdout}{done.stderr}")
    rate = float(rate[1])
    return rate, float(late[1]) * MICROS[late[2]], (server.seconds() - worked) / (rate * took) * 1e6


def measure(options, before, servers, threads):
    """The figures of every turn, by point and server. Another one begins in each round."""
    figures = {}
    for number in range(options.rounds):
        order = servers[number % len(servers):] + servers[:number % len(servers)]
        for case, (path, body) in CASES.items():
            for connections in CONNECTIONS:
                for server in order:
                    said = turn(options, before, server, path, body, connections, threads)
                    figures.setdefault((case, connections), {}).setdefault(server.name, []).append(said)
                    print(f"{case}, {connections}: {server.name} {said[0]:.0f}/s", file=sys.stderr)
                    time.sleep(options.pause)
    return figures


def report(figures):
    """Medians as a Markdown table; in brackets ours over the peer's rate of the same round, the median."""
    names = list(next(iter(figures.values())))
    print("\n| requests/s (ours over it) | " + " | ".join(names) + " |")
    print("|---|" + "---:|" * len(names))
    for (case, connections), of in figures.items():
        cells = []
        for name in names:
            cell = f"{statistics.median(one[0] for one in of[name]):,.0f}"
            if "ours" in of and name != "ours":
                ratio = statistics.median(a[0] / b[0] for a, b in zip(of["ours"], of[name]))
                cell += f" ({ratio:.2f})"
            cells.append(cell)
        print(f"| {case}, {connections} | " + " | ".join(cells) + " |")
    print("\n| us: 99th percentile, processor time a request | " + " | ".join(names) + " |")
    print("|---|" + "---:|" * len(names))
    for (case, connections), of in figures.items():
        cells = [" ".join(f"{statistics.median(one[at] for one in of[name]):.1f}" for at in (1, 2)) for name in names]
        print(f"| {case}, {connections} | " + " | ".join(cells) + " |")


def machine():
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [model[1] if model else platform.machine(), os.cpu_count(), round(memory), platform.release()]


def lines(options, figures):
    """A line for each figure, as `records/` keeps them."""
    out, here = csv.writer(sys.stdout, lineterminator="\n"), machine()
    out.writerow("bench case engine value unit runs cpu cores memory_gib kernel filesystem".split())
    for (case, connections), of in figures.items():
        for name, turns in of.items():
            for at, (what, unit) in enumerate((("", "1/s"), (": 99th percentile", "us"), (": processor time", "us"))):
                value = statistics.median(one[at] for one in turns)
                value = round(value) if at == 0 else round(value, 1)
                out.writerow(["http", f"{case}, {connections}{what}", name, value, unit, len(turns), *here, "-"])


def main():
    options, threads = arguments(), os.cpu_count()
    before = scheduled(options.real_time)
    servers, folder = start_all(options, before, threads)
    try:
        chosen = [one for one in servers if not options.only or one.name in options.only]
        figures = measure(options, before, chosen, threads)
    finally:
        stop_all(servers, folder)
    report(figures)
    version = subprocess.run([options.nginx, "-v"], capture_output=True, text=True).stderr.strip()
    print(f"\n{version}; load average {os.getloadavg()[0]:.1f} at the end\n")
    lines(options, figures)


if __name__ == "__main__":
    main()
