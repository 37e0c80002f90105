"""SciFact by cosine alone: nDCG@10 over the test queries. The data is a folder in BEIR's layout:
`corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`."""
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from embed import embed
from report import Report, table
from workers import Place, Side

PUBLISHED = 0.645
BEST = 10
QUICK_QUERIES, QUICK_DOCUMENTS = 20, 40


@dataclass(frozen=True)
class Found:
    side: Side
    ndcg: float
    texts_per_second: float | None  # None: a peer, which is given one text at a time


@dataclass(frozen=True)
class Data:
    documents: dict[str, str]
    queries: dict[str, str]
    relevant: dict[str, dict[str, int]]


def read(folder: Path, quick: bool) -> Data:
    """A quick run has a few queries, what answers them and a few documents more."""
    relevant: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(query, {})[document] = int(grade)
    if quick:
        relevant = dict(list(relevant.items())[:QUICK_QUERIES])
    queries = {it["_id"]: it["text"] for it in _lines(folder / "queries.jsonl")}
    answers = {document for grades in relevant.values() for document in grades}
    documents = {}
    for it in _lines(folder / "corpus.jsonl"):
        if not quick or len(documents) < QUICK_DOCUMENTS or it["_id"] in answers:
            documents[it["_id"]] = f"{it['title']} {it['text']}"
    return Data(documents, {query: queries[query] for query in relevant}, relevant)


def _lines(path: Path) -> list[dict]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def measure(place: Place, model: Tokenizer, data: Data, sides: list[Side]) -> list[Found]:
    found = []
    texts = list(data.documents.values())
    for side in sides:
        print(f"scifact: {side.name}, {len(texts)} documents", file=sys.stderr, flush=True)
        documents, seconds = embed(side, place, model, texts)
        queries, _ = embed(side, place, model, list(data.queries.values()))
        scores = queries @ documents.T
        rate = len(texts) / seconds if side.who == "ours" else None
        found.append(Found(side, _ndcg(data, scores), rate))
        print(f"scifact: nDCG@10 {found[-1].ndcg:.4f}", file=sys.stderr, flush=True)
    return found


def _ndcg(data: Data, scores: np.ndarray) -> float:
    """Mean over the queries of the discounted gain of the ten best, against the best possible."""
    names = list(data.documents)
    total = 0.0
    for query, row in zip(data.queries, scores):
        grades = data.relevant[query]
        best = np.argsort(-row, kind="stable")[:BEST]
        total += _gain([grades.get(names[i], 0) for i in best]) / _gain(
            sorted(grades.values(), reverse=True)[:BEST])
    return total / len(data.queries)


def _gain(grades: list[int]) -> float:
    return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades))


def tell(report: Report, found: list[Found], data: Data, quick: bool) -> None:
    what = f"{len(data.queries)} queries, {len(data.documents)} documents"
    report.say(f"### SciFact, nDCG@10 by cosine alone, {what}\n")
    if quick:
        report.say("A few documents only: shows that it works, and cannot be compared.\n")
    heads = ["side", "nDCG@10", f"from {PUBLISHED}", "documents/s"]
    rows = []
    for it in found:
        rows.append([it.side.name, f"{it.ndcg:.4f}", f"{it.ndcg - PUBLISHED:+.4f}",
                     f"{it.texts_per_second:.1f}" if it.texts_per_second else ""])
        threads = f"{it.side.threads} thread{'s' * (it.side.threads > 1)}"
        report.add("scifact", f"nDCG@10, {what}", it.side.name, f"{it.ndcg:.4f}", "", 1)
        if it.texts_per_second:
            report.add("scifact", f"documents, {threads}", it.side.name,
                       f"{it.texts_per_second:.1f}", "1/s", 1)
    report.say(table(heads, rows))
