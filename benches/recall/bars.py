"""What was promised, and whether it is kept."""
import statistics
from collections.abc import Callable, Iterator

from alone import EXACT, Times
from bar import Bar
from client import Turn
from large import Found
from service import CROWD, GOVERNED, GRAPH, RECALL, SEMANTIC, Case, Turns, p50, p99, rate


def of_scan(times: Times, rows: int) -> Iterator[Bar]:
    yield Bar(f"exact top 10 of {rows} rows, 1 thread: time against faiss {EXACT}", 0.40,
              times.ratio(EXACT), True, digits=3,
              remark=f"{times.median('ours'):.2f} ms, {times.median(EXACT):.2f} ms; by the least calls' "
                     f"time {times.least_ratio(EXACT):.3f}")


def of_words(times: Times) -> Iterator[Bar]:
    yield Bar("words lane alone, 3 words, 1 thread: time against tantivy", 1.0, times.ratio("tantivy"), True,
              remark=f"{times.median('ours') * 1e3:.0f} us, {times.median('tantivy') * 1e3:.0f} us; by the "
                     f"least calls' time {times.least_ratio('tantivy'):.2f}")


def of_service(turns: Turns, first: list[float] | None) -> Iterator[Bar]:
    name = "POST /semantic-recall"
    yield _at_most(turns, f"{name}, 1 client: p50, ms", SEMANTIC, p50, 5)
    yield _at_most(turns, f"{name}, 1 client: p99, ms", SEMANTIC, p99, 10)
    yield _ratio(turns, f"{name}, 1 client: p50 against the best peer", SEMANTIC, p50, 0.25, True)
    yield _ratio(turns, f"{name}, 8 clients: requests/s against the best peer", CROWD, rate, 5, False)
    yield _at_most(turns, "POST /recall, 3 words, no graph: p50, ms", RECALL, p50, 1)
    yield _at_most(turns, "POST /recall, 3 words, with graph: p50, ms", GRAPH, p50, 2)
    yield _at_most(turns, "retrieval_arbitrate_tool, audit written: p50, ms", GOVERNED, p50, 8)
    took = statistics.median(first) / 1e3 if first else None
    yield Bar("first semantic answer after the start, file cache warm, s", 0.3, took, True)
    own = {when: value for (server, when), value in turns.memory.items() if server == "ours"}
    yield Bar("resident anonymous memory, MiB", 150, max(own.values(), default=None), True,
              remark="; ".join(f"{value:.0f} {when}" for when, value in own.items()))


def of_large(found: Found | None, why_not: str) -> Iterator[Bar]:
    name = "ten times the rows, approximate"
    ratio, recall = (found.ratio, found.recall) if found else (None, None)
    yield Bar(f"{name}: p50 against exact on the smaller store", 2, ratio, True, remark=why_not)
    yield Bar(f"{name}: recall@10", 0.99, recall, digits=3, remark=why_not)


def _at_most(turns: Turns, what: str, case: Case, figure: Callable[[Turn], float], wanted: float) -> Bar:
    return Bar(what, wanted, turns.median(case, "ours", figure), True)


def _ratio(turns: Turns, what: str, case: Case, figure: Callable[[Turn], float], wanted: float,
           at_most: bool) -> Bar:
    peer = turns.best_peer(case, figure, at_most)
    value = turns.ratio(case, peer, figure)
    if value is None or peer is None:
        return Bar(what, wanted, None, at_most)
    own, its = (turns.median(case, server, figure) for server in ("ours", peer))
    return Bar(what, wanted, value, at_most, remark=f"{own:.2f}, {peer} {its:.2f}")
