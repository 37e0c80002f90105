"""Time: every side in its own pinned process, taking turns case by case in every round."""
import math
import statistics
import sys
from dataclasses import dataclass, field

from tokenizers import Tokenizer

import graphs
import holding
import texts
from quiet import Gate
from report import Report, shown, table
from workers import Place, Side, Worker, start

BATCH_TEXTS, BATCH_TOKENS = 32, 32
TURN_SECONDS = 0.12  # what the calls of one turn should take
CALLS_MIN, CALLS_MAX = 3, 40
CALLS_WITH_READ_MAX = 12  # each has a read of some ten milliseconds before it
PEER_OF = {"f32": "f32", "f16": "f32", "int8": "int8"}


@dataclass(frozen=True)
class Case:
    """One piece of work."""

    tokens: int
    texts: int = 1
    read_between: bool = False

    @property
    def name(self) -> str:
        what = f"{self.tokens} tokens"
        if self.texts > 1:
            what = f"batch of {self.texts} x {self.tokens} tokens"
        return what + (", after a scan" if self.read_between else "")


BATCH = Case(BATCH_TOKENS, BATCH_TEXTS)
ALL = [Case(n, read_between=read) for n in (8, 16, 32, 128, 256) for read in (False, True)] + [BATCH]
FEW = [Case(16), Case(16, read_between=True), Case(128), BATCH]
HELD = [Case(16), Case(32), Case(128), BATCH]


@dataclass
class Times:
    """Milliseconds: for each side and case the medians of its rounds, and its least call."""

    least: dict[tuple[Side, Case], float] = field(default_factory=dict)
    of: dict[tuple[Side, Case], list[float]] = field(default_factory=dict)
    gate: Gate = field(default_factory=Gate)

    def add(self, side: Side, case: Case, took: list[float]) -> None:
        """One turn."""
        self.of.setdefault((side, case), []).append(statistics.median(took))
        self.least[side, case] = min(self.least.get((side, case), math.inf), *took)

    def median(self, side: Side, case: Case) -> float | None:
        found = self.of.get((side, case))
        return statistics.median(found) if found else None

    def sides(self, **wanted: object) -> list[Side]:
        """Sides with these fields, in the order they were started."""
        unlike = dict.fromkeys(side for side, _ in self.of)
        return [side for side in unlike
                if all(getattr(side, name) == value for name, value in wanted.items())]

    def best(self, case: Case, **wanted: object) -> tuple[float, Side] | None:
        """The shortest time of those sides, and whose it is."""
        found = [(ms, side) for side in self.sides(**wanted) if (ms := self.median(side, case))]
        return min(found, key=lambda pair: pair[0], default=None)

    def spread(self) -> float:
        """How far the middle half of a case's rounds lies apart, as a share of their median: the
        middle one of all cases."""
        shares = []
        for values in self.of.values():
            if len(values) >= 4:
                low, middle, high = statistics.quantiles(values, n=4)
                shares.append((high - low) / middle)
        return statistics.median(shares) if shares else 0.0


def sides_of(level: str, precisions: list[str], more: bool, held: str) -> list[Side]:
    peers = {PEER_OF[precision] for precision in precisions}
    found = []
    for threads in (1, 2):
        found += [Side("ours", precision, level, threads, held) for precision in precisions]
        found += [Side("ONNX Runtime", precision, graph, threads, held)
                  for precision in ("f32", "int8") if precision in peers for graph in graphs.GRAPHS]
        if more and not held:
            found.append(Side("OpenVINO", "f32", "plain", threads))
    return found


def measure(place: Place, model: Tokenizer, sides: list[Side], rounds: int, quick: bool) -> Times:
    """`rounds` rounds; in each, every case of every side has its turn."""
    times = Times()
    workers = [start(side, place) for side in sides]
    try:
        requests = {case: _request(model, case) for case in ALL}
        for number in range(rounds):
            print(f"speed: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            # Another neighbour before each side in each round.
            turn = number % len(workers)
            for case in FEW if quick else ALL:
                for worker in workers[turn:] + workers[:turn]:
                    if worker.side.held and case not in HELD:
                        continue
                    if not quick:
                        times.gate.wait()
                    took = _turn(worker, case, requests[case], quick)
                    times.add(worker.side, case, took)
        return times
    finally:
        for worker in workers:
            worker.close()


def _request(model: Tokenizer, case: Case) -> tuple[dict, dict]:
    """The same work for us (texts) and for a peer (their ids)."""
    found = texts.of_tokens(model, case.tokens, case.texts)
    both = {"read_between": case.read_between}
    return both | {"texts": found}, both | {"ids": [model.encode(text).ids for text in found]}


def _turn(worker: Worker, case: Case, requests: tuple[dict, dict], quick: bool) -> list[float]:
    request = requests[0] if worker.side.who == "ours" else requests[1]
    first = worker.ask({"time": request | {"calls": 2 if quick else 1}})
    if set(first["tokens"]) != {case.tokens}:
        raise ValueError(f"{worker.side.name} sees {first['tokens']} tokens instead of {case.tokens}")
    if quick:
        return first["milliseconds"]
    calls = TURN_SECONDS * 1e3 / first["milliseconds"][0]
    most = CALLS_WITH_READ_MAX if case.read_between else CALLS_MAX
    calls = max(CALLS_MIN, min(round(calls), most))
    return worker.ask({"time": request | {"calls": calls}})["milliseconds"]


def tell(report: Report, times: Times, rounds: int) -> None:
    """One table for each number of threads, with ratios to the better graph of the peer's."""
    for held in ("", *holding.NEEDED):
        for threads in (1, 2):
            sides = times.sides(held=held, threads=threads)
            if sides:
                title = f"### {threads} thread{'s' * (threads > 1)}, milliseconds"
                report.say(title + (f", everybody held to {held}" if held else "") + "\n")
                report.say(_table(times, sides))
    report.say(f"Medians of {rounds} round{'s' * (rounds > 1)}; the middle half of a figure's rounds lies within "
               f"{times.spread():.0%} of it (the middle one of all figures). A ratio is ours to the "
               "better of ONNX Runtime's two graphs, f32 for f32 and f16, int8 for int8: below 1 "
               "we are ahead. Ours makes its tokens from text, the peers get ids.")
    if times.gate.turns:
        report.say(f"Of {times.gate.turns} turns, {times.gate.loud} began while others used the "
                   "machine.")
    report.say()
    for (side, case), values in times.of.items():
        where = f"{case.name}, {side.threads} thread{'s' * (side.threads > 1)}"
        where += f", {side.held}" if side.held else ""
        report.add("encode", where, side.name,
                   f"{statistics.median(values):.4g}", "ms", len(values))
        report.add("encode least", where, side.name,
                   f"{times.least[side, case]:.4g}", "ms", len(values))


def _table(times: Times, sides: list[Side]) -> str:
    ours = [side for side in sides if side.who == "ours"]
    heads = ["work"] + [side.name for side in sides] + [f"ratio {side.precision}" for side in ours]
    rows = []
    for case in dict.fromkeys(case for side, case in times.of if side in sides):
        row = [case.name]
        row += [shown(ms) if (ms := times.median(side, case)) else "" for side in sides]
        for side in ours:
            peer = times.best(case, who="ONNX Runtime", precision=PEER_OF[side.precision],
                              held=side.held, threads=side.threads)
            own = times.median(side, case)
            row.append(f"{own / peer[0]:.2f}" if own and peer else "")
        rows.append(row)
    return table(heads, rows)
