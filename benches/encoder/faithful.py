"""Faithfulness: 500 varied sentences against the published model in f32."""
import sys
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

import graphs
import texts
from embed import embed
from report import Report, table
from workers import Place, Side

NEIGHBOURS = 10
QUICK_SENTENCES = 30
ORIGINAL = Side("ONNX Runtime", "f32", "plain", 1)


@dataclass(frozen=True)
class Likeness:
    """How like the original's vectors a side's are."""

    side: Side
    mean: float
    least: float
    overlap_ours: float  # our queries among our documents
    overlap_mixed: float  # our queries among the original's documents


def _nearest(queries: np.ndarray, documents: np.ndarray) -> list[set[int]]:
    """The ten documents nearest to each query, its own sentence left out."""
    scores = queries @ documents.T
    np.fill_diagonal(scores, -np.inf)
    return [set(row) for row in np.argsort(-scores, axis=1)[:, :NEIGHBOURS].tolist()]


def _overlap(ours: list[set[int]], original: list[set[int]]) -> float:
    return sum(len(a & b) for a, b in zip(ours, original)) / (NEIGHBOURS * len(original))


def measure(place: Place, model: Tokenizer, levels: list[str], precisions: list[str],
            quick: bool) -> list[Likeness]:
    sentences = texts.varied(QUICK_SENTENCES if quick else texts.SENTENCES)
    original, _ = embed(ORIGINAL, place, model, sentences)
    truth = _nearest(original, original)
    sides = [Side("ours", precision, level, 1) for precision in precisions for level in levels]
    sides += [Side("ONNX Runtime", "int8", graph, 1) for graph in graphs.GRAPHS]
    found = []
    for side in sides:
        print(f"faithful: {side.name}", file=sys.stderr, flush=True)
        vectors, _ = embed(side, place, model, sentences)
        cosine = (vectors * original).sum(axis=1)
        found.append(Likeness(
            side, float(cosine.mean()), float(cosine.min()),
            _overlap(_nearest(vectors, vectors), truth),
            _overlap(_nearest(vectors, original), truth)))
    return found


def tell(report: Report, found: list[Likeness], quick: bool) -> None:
    count = QUICK_SENTENCES if quick else texts.SENTENCES
    report.say(f"### Faithful, {count} sentences against ONNX Runtime f32, plain graph\n")
    heads = ["side", "mean cosine", "least cosine", "top-10 overlap", "against its documents"]
    rows = []
    for it in found:
        values = [f"{it.mean:.7f}", f"{it.least:.7f}", f"{it.overlap_ours:.4f}",
                  f"{it.overlap_mixed:.4f}"]
        rows.append([it.side.name, *values])
        for what, value in zip(heads[1:], values):
            report.add("faithful", what, it.side.name, value, "", count)
    report.say(table(heads, rows))
