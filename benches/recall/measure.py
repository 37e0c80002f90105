"""Measures recall beside its peers; `run` builds what it needs and starts it."""
import argparse
import signal
import statistics
import sys
from pathlib import Path

import alone
import bar
import bars
import corpus
import graphs
import large
import questions
import service
from bar import Bar
from client import AnswerError
from corpus import Corpus, Programs
from listening import scheduled
from process import WorkerError
from quiet import Gate
from report import Report
from servers import PEERS, Asked, Ours, Peer, knows

ROWS, QUICK_ROWS = 120_000, 3_000
PARTS = ("scan", "words", "service", "start", "large")
# The peer's graph: after a scan it is the faster of the two.
GRAPH = "fused"
# Questions that a turn may take in a second, at most, and those beyond the service's turns.
QUESTIONS_PER_SECOND, MORE_QUESTIONS = 2_500, 4_000
SCAN_COUNT, WORDS_COUNT, STARTS = 30, 200, 6
QUICK_COUNT, QUICK_STARTS = 6, 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description="Measures recall beside its peers.")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side at each point (default 7)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a server's turn (default 2)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"items (default {ROWS})")
    parser.add_argument("--large", action="store_true", help="ten times the rows as well; takes minutes to make")
    parser.add_argument("--texts", type=Path, metavar="PATH",
                        help="real texts instead of made-up ones: a folder, or a file of JSON Lines")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part, and others so named")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this variant of the Python peer")
    parser.add_argument("--quick", action="store_true", help="shows that everything works, judges nothing")
    parser.add_argument("--again", action="store_true", help="makes the stores again, whatever is there")
    parser.add_argument("--real-time", action="store_true",
                        help="all that is measured under `chrt -f`, for a machine with other work to do")
    parser.add_argument("--folder", type=Path, help="where packages and stores lie (run says)")
    for program in ("server", "worker", "tantivy"):
        parser.add_argument(f"--{program}", type=Path, help=argparse.SUPPRESS)
    found = parser.parse_args()
    if found.quick:
        found.rounds, found.seconds, found.rows = 1, 0.3, QUICK_ROWS
    if not (1 <= found.rounds <= 1000 and 0.1 <= found.seconds <= 60):
        parser.error("--rounds is from 1 to 1000, --seconds from 0.1 to 60")
    if not 1000 <= found.rows <= 10_000_000:
        parser.error("--rows is from 1000 to 10,000,000")
    return found


def main() -> None:
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run: ended from outside"))
    report = Report()
    try:
        promises = Run(asked, report).all()
    except (WorkerError, AnswerError, OSError) as error:
        raise SystemExit(f"run: {error}") from None
    quick = "A quick run: too few rows and rounds for a verdict."
    bar.tell(report, promises, quick if asked.quick else "")
    report.machine(("faiss-cpu", "onnxruntime", "fastapi", "uvicorn", "numpy"))


class Run:
    """One run: what was asked for, and what there is to ask."""

    def __init__(self, asked: argparse.Namespace, report: Report) -> None:
        self.asked, self.report, self.folder = asked, report, asked.folder
        self.programs = Programs(asked.server, asked.worker, asked.tantivy)
        self.before = scheduled(asked.real_time)
        # Who is scheduled first need not wait until the machine is quiet.
        self.gate = Gate(off=asked.quick or asked.real_time)
        for log in ("worker.log", "servers.log"):
            (self.folder / log).unlink(missing_ok=True)
        if asked.again:
            corpus.forget(self.folder)
        self.corpus = self.of_texts() if asked.texts else corpus.made(self.folder, self.programs, asked.rows)
        store = alone.Store([], self.programs, self.corpus, self.folder)
        self.ready = store.ready
        store.close()
        self.model = Path(self.ready["model"])
        count = int(asked.rounds * asked.seconds * QUESTIONS_PER_SECOND) * 2 + MORE_QUESTIONS
        self.questions = questions.of_corpus(
            self.corpus.dump / "items.jsonl", self.model / "tokenizer.json", count,
            self.corpus.folder / "questions.json")
        report.say(f"{self.corpus.rows} rows in {self.ready['parts']} part(s), {self.ready['edges']} edges; "
                   f"encoder {self.ready['precision']} {self.ready['kernel']}.\n")

    def of_texts(self) -> Corpus:
        found = corpus.real(self.folder, self.programs, self.asked.texts, self.asked.rows)
        if found.rows < self.asked.rows:
            self.report.say(f"There are only {found.rows} texts.\n")
        return found

    def wants(self, part: str) -> bool:
        return part in self.asked.only if self.asked.only else part != "large" or self.asked.large

    def all(self) -> list[Bar]:
        found: list[Bar] = []
        if self.wants("scan") or self.wants("words"):
            found += self.by_itself()
        if self.wants("service") or self.wants("start"):
            found += self.over_http()
        if self.wants("large"):
            found += self.ten_times()
        if self.gate.turns:
            self.report.say(f"Of {self.gate.turns} turns, {self.gate.loud} began while others used the "
                            "machine.\n")
        return found

    def by_itself(self) -> list[Bar]:
        found, asked, rows = [], self.asked, self.corpus.rows
        store = alone.Store(self.before, self.programs, self.corpus, self.folder)
        try:
            if self.wants("scan"):
                count = QUICK_COUNT if asked.quick else SCAN_COUNT
                times = alone.scan(self.before, store, self.corpus, self.questions.runs, self.folder,
                                   asked.rounds, count, self.gate)
                alone.tell(self.report, "Exact top 10, 1 thread", f"top 10 of {rows}", times)
                alone.tell_pages(self.report, f"top 10 of {rows}", store.codes_in_huge_pages())
                found += bars.of_scan(times, rows)
            if self.wants("words"):
                found += self.words_lane(store)
        finally:
            store.close()
        return found

    def words_lane(self, store: alone.Store) -> list[Bar]:
        if self.programs.tantivy is None:
            self.report.say("tantivy was not built (--quick leaves it out), so nothing is beside the words "
                            "lane.\n")
            return []
        count = QUICK_COUNT if self.asked.quick else WORDS_COUNT
        times = alone.words(self.before, store, self.corpus, self.programs, self.questions.words,
                            self.folder, self.asked.rounds, count, self.gate)
        alone.tell(self.report, "Words lane alone, 3 words, 1 thread",
                   f"3 words, best 10 of {self.corpus.rows}", times)
        return list(bars.of_words(times))

    def over_http(self) -> list[Bar]:
        asked, first = self.asked, {}
        graphs.build(self.model, self.folder)
        variants = asked.peer or (["2x1"] if asked.quick else list(PEERS))
        starts = {variant: self.peer(variant) for variant in variants}
        turns = service.Turns()
        if self.wants("start"):
            count = QUICK_STARTS if asked.quick else STARTS
            some = self.questions.runs[-count:]
            first["ours"] = service.first_answers(self.ours, some, asked.real_time)
            best = variants[0]
            first[f"Python {best}"] = service.first_answers(starts[best], some, asked.real_time)
        if self.wants("service"):
            servers: list[Asked] = []
            try:
                servers.append(ours := self.ours())
                servers += [start() for start in starts.values()]
                for server in servers:
                    server.wait()
                ours.begin_session()
                turns = service.measure(servers, self.questions, asked.rounds, asked.seconds, self.gate,
                                        asked.real_time)
            finally:
                for server in servers:
                    server.stop()
            service.tell(self.report, turns, first)
        elif first:
            took = {server: f"{statistics.median(times):.0f} ms" for server, times in first.items()}
            self.report.say(f"First semantic answer after the start: {took}.\n")
        return list(bars.of_service(turns, first.get("ours")))

    def ours(self) -> Ours:
        return Ours(self.before, self.programs, self.corpus, self.folder / "servers.log")

    def peer(self, variant: str):
        return lambda: Peer(self.before, variant, GRAPH, self.corpus, self.folder, self.model)

    def ten_times(self) -> list[Bar]:
        asked, rows = self.asked, self.corpus.rows * 10
        many = corpus.made(self.folder, self.programs, rows, edges=False)
        store = alone.Store(self.before, self.programs, many, self.folder)
        try:
            times = alone.scan(self.before, store, many, self.questions.runs, self.folder, asked.rounds,
                               QUICK_COUNT, self.gate, kinds=(alone.EXACT,))
            huge = store.codes_in_huge_pages()
        finally:
            store.close()
        alone.tell(self.report, f"Exact top 10 of {rows} rows, 1 thread", f"top 10 of {rows}", times)
        alone.tell_pages(self.report, f"top 10 of {rows}", huge)
        if not knows(self.programs, large.OPTION):
            return list(bars.of_large(None, f"this build has no {large.OPTION}"))
        result = large.measure(self.before, self.programs, self.corpus, many, self.questions.runs,
                               self.folder, asked.rounds, asked.seconds, self.gate, asked.real_time)
        large.tell(self.report, self.corpus, many, result)
        return list(bars.of_large(result, ""))


if __name__ == "__main__":
    main()
