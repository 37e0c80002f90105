"""What the store does without a server around it, one thread, beside faiss (nearest vectors) and tantivy
(words), each in a process of its own, in turns."""
import json
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

from corpus import Corpus, Programs
from pages import Huge, in_huge_pages
from process import Process
from quiet import Gate
from report import Report, shown, table

HERE = Path(__file__).resolve().parent
BEST = 10
EXACT = "fp16"
KINDS = (EXACT, "flat f32", "8 bit")
# Calls of one turn that are asked before those that count.
WARM_UP = 3


@dataclass
class Times:
    """Medians of each round in milliseconds, by side; and how many of our ten a side has too."""

    of: dict[str, list[float]] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    shared: dict[str, list[float]] = field(default_factory=dict)

    def add(self, side: str, milliseconds: list[float]) -> None:
        counted = milliseconds[WARM_UP:]
        self.of.setdefault(side, []).append(statistics.median(counted))
        self.least[side] = min(self.least.get(side, counted[0]), *counted)

    def median(self, side: str) -> float:
        return statistics.median(self.of[side])

    def ratio(self, peer: str) -> float:
        """Ours to the peer's: the median of the rounds' ratios."""
        return statistics.median(own / its for own, its in zip(self.of["ours"], self.of[peer]))

    def least_ratio(self, peer: str) -> float:
        return self.least["ours"] / self.least[peer]

    def share(self, side: str) -> float:
        return statistics.mean(self.shared[side])


def overlap(ours: list[list[str]], theirs: list[list[str]]) -> float:
    """How many of ours a peer has too, of those that ours has."""
    counts = [len(set(own) & set(its)) / len(own) for own, its in zip(ours, theirs) if own]
    return statistics.mean(counts) if counts else 1.0


class Store:
    """Our worker on one corpus, pinned to one CPU."""

    def __init__(self, before: list[str], programs: Programs, corpus: Corpus, folder: Path) -> None:
        command = [*before, str(programs.worker), "ask", "--data", str(corpus.data)]
        self.process = Process("ours", command, 1, folder / "worker.log")
        self.ready, self.data = self.process.ready, corpus.data

    def embed(self, texts: list[str], folder: Path) -> Path:
        """A file of one vector for each text."""
        given, vectors = folder / "asked.json", folder / "asked.f32"
        given.write_text(json.dumps(texts))
        self.process.ask({"embed": {"texts": str(given), "vectors": str(vectors)}})
        return vectors

    def nearest(self, vectors: Path, first: int, count: int) -> dict:
        wanted = {"vectors": str(vectors), "first": first, "count": count, "limit": BEST}
        return self.process.ask({"nearest": wanted})

    def words(self, questions: list[str]) -> dict:
        return self.process.ask({"words": {"questions": questions, "limit": BEST}})

    def codes_in_huge_pages(self) -> Huge:
        """Codes of embeddings alone are wished for in huge pages."""
        return in_huge_pages(self.process.process.pid, self.data)

    def close(self) -> None:
        self.process.close()


def scan(before: list[str], store: Store, corpus: Corpus, asked: list[str], folder: Path, rounds: int,
         count: int, gate: Gate, kinds: tuple[str, ...] = KINDS) -> Times:
    """The exact top ten; `count` questions in each round."""
    vectors, ids, times = store.embed(asked[:rounds * count], corpus.folder), corpus.ids(), Times()
    command = [*before, sys.executable, str(HERE / "peer" / "scan.py"), str(corpus.dump), *kinds]
    peer = Process("faiss", command, 1, folder / "worker.log")
    try:
        for number in range(rounds):
            print(f"scan: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            first = number * count
            wanted = {"vectors": str(vectors), "first": first, "count": count, "limit": BEST}
            turns = ["ours", *kinds]
            answers: dict[str, list[list[str]]] = {}
            for side in turns[number % len(turns):] + turns[:number % len(turns)]:
                gate.wait()
                if side == "ours":
                    said = store.nearest(vectors, first, count)
                    answers[side] = said["ids"]
                else:
                    said = peer.ask({"nearest": wanted | {"kind": side}})
                    answers[side] = [[ids[row] for row in rows] for rows in said["rows"]]
                times.add(side, said["milliseconds"])
            for side, found in answers.items():
                times.shared.setdefault(side, []).append(overlap(answers["ours"], found))
    finally:
        peer.close()
    return times


def words(before: list[str], store: Store, corpus: Corpus, programs: Programs, asked: list[str],
          folder: Path, rounds: int, count: int, gate: Gate) -> Times:
    """The ten best by BM25 for three words."""
    command = [*before, str(programs.tantivy), "ask", "--documents", str(corpus.dump / "items.jsonl"),
               "--index", str(corpus.tantivy)]
    peer = Process("tantivy", command, 1, folder / "worker.log")
    ids, times = corpus.ids(), Times()
    try:
        for number in range(rounds):
            print(f"words: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            some = asked[number * count:(number + 1) * count]
            answers: dict[str, list[list[str]]] = {}
            for side in ("ours", "tantivy") if number % 2 else ("tantivy", "ours"):
                gate.wait()
                if side == "ours":
                    said = store.words(some)
                    answers[side] = said["ids"]
                else:
                    said = peer.ask({"words": {"questions": some, "limit": BEST}})
                    answers[side] = [[ids[row] for row in rows] for rows in said["numbers"]]
                times.add(side, said["milliseconds"])
            times.shared.setdefault("tantivy", []).append(overlap(answers["ours"], answers["tantivy"]))
    finally:
        peer.close()
    return times


def tell(report: Report, title: str, case: str, times: Times) -> None:
    heads = ["", "median, ms", "least, ms", "ours to it", "by the least", "of our ten it has"]
    rows = []
    for side in ("ours", *(side for side in times.of if side != "ours")):
        row = [side, shown(times.median(side)), shown(times.least[side])]
        if side == "ours":
            row += ["", "", ""]
        else:
            row += [f"{times.ratio(side):.3f}", f"{times.least_ratio(side):.3f}", f"{times.share(side):.4f}"]
            report.add("recall alone", f"{case}: of our ten", side, f"{times.share(side):.4f}", "share",
                       len(times.of[side]))
        rows.append(row)
        report.add("recall alone", case, side, f"{times.median(side):.4g}", "ms", len(times.of[side]))
        report.add("recall alone", f"{case}: least", side, f"{times.least[side]:.4g}", "ms",
                   len(times.of[side]))
    report.say(f"### {title}\n")
    report.say(table(heads, rows))


def tell_pages(report: Report, case: str, huge: Huge) -> None:
    """What a scan's time depends on: codes in small pages take longer."""
    report.say(f"Of {huge.mapped:.0f} MiB of codes {huge.huge:.0f} MiB lie in huge pages.\n")
    report.add("recall alone", f"{case}: codes in huge pages", "ours", f"{huge.share:.4f}", "share", 1)
