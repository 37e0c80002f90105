"""What was promised, and whether it is kept."""
from collections.abc import Callable, Iterator

from bar import Bar
from faithful import Likeness
from scifact import PUBLISHED, Found
from speed import BATCH, Case, Times

FULL, WHOLE = ("f32", "f16"), "f32 or f16 weights"
SCIFACT_SLACK = 0.003


def of_likeness(found: list[Likeness]) -> Iterator[Bar]:
    for it in found:
        if it.side.who != "ours":
            continue
        name = f"faithful, {it.side.name}"
        if it.side.precision in FULL:
            yield Bar(f"{name}: least cosine", 0.99999, it.least, digits=5)
            continue
        yield Bar(f"{name}: mean cosine", 0.999, it.mean, digits=4)
        yield Bar(f"{name}: least cosine", 0.995, it.least, digits=4)
        yield Bar(f"{name}: top-10 overlap, our queries among the original's documents", 0.98,
                  it.overlap_mixed, digits=4)
        yield Bar(f"{name}: top-10 overlap, our queries among our documents", 0.98,
                  it.overlap_ours, digits=4)


def of_times(times: Times, without_holding: dict[str, str]) -> Iterator[Bar]:
    """`without_holding`: for a level, why nobody was held to it."""
    yield from _of_level(times, "")
    if times.sides(held="avx512"):
        yield from _of_level(times, "avx512")
    ratio = _ratios(times, FULL, "f32")
    for case, threads in ((Case(16), 1), (Case(32), 1), (Case(128), 1), (BATCH, 2)):
        value, remark = ratio(case, threads, "avx2")
        what = f"AVX2 level, {case.name}, {threads} thread{'s' * (threads > 1)}, {WHOLE}"
        yield Bar(f"{what}: time against ONNX Runtime f32 held to AVX2", 1.0, value, True,
                  remark=without_holding.get("avx2") or remark)


def _of_level(times: Times, held: str) -> Iterator[Bar]:
    """With all that the processor has, or everybody held to a level."""
    terms = f", everybody held to {held}" if held else ""
    for kind, peer, short in ((FULL, "f32", 0.45), (("int8",), "int8", 0.55)):
        name = (WHOLE if kind == FULL else "int8") + terms
        if not any(times.sides(who="ours", precision=precision) for precision in kind):
            continue
        ratio = _ratios(times, kind, peer)
        for tokens, threads, wanted in ((16, 1, short), (16, 2, 0.55), (128, 1, 0.60)):
            what = f"{tokens} tokens, {threads} thread{'s' * (threads > 1)}, {name}"
            scanned, _ = ratio(Case(tokens, read_between=True), threads, held)
            value, remark = ratio(Case(tokens), threads, held)
            if scanned:
                remark += f"; after a scan {scanned:.2f}"
            yield Bar(f"{what}: time against ONNX Runtime {peer}", wanted, value, True,
                      remark=remark)
        value, remark = ratio(BATCH, 2, held)
        yield Bar(f"batch, 2 threads, {name}: throughput against ONNX Runtime {peer}", 1.5,
                  1 / value if value else None, remark=remark)


def _ratios(times: Times, kind: tuple[str, ...], peer: str
            ) -> Callable[[Case, int, str], tuple[float | None, str]]:
    def ratio(case: Case, threads: int, held: str) -> tuple[float | None, str]:
        """Our best time to the peer's best, and whose they are."""
        own = [best for precision in kind if (best := times.best(
            case, who="ours", precision=precision, held=held, threads=threads))]
        theirs = times.best(
            case, who="ONNX Runtime", precision=peer, held=held, threads=threads)
        if not own or not theirs:
            return None, ""
        ms, side = min(own, key=lambda pair: pair[0])
        least = min(times.least[it, case] for precision in kind for it in times.sides(
            who="ours", precision=precision, held=held, threads=threads))
        least /= min(times.least[it, case] for it in times.sides(
            who="ONNX Runtime", precision=peer, held=held, threads=threads))
        said = (f"{side.precision} {side.form} {ms:.2f} ms, {theirs[1].form} {theirs[0]:.2f} ms; "
                f"by the least calls' time {least:.2f}")
        return ms / theirs[0], said

    return ratio


def of_scifact(found: list[Found]) -> Iterator[Bar]:
    for it in found:
        if it.side.who == "ours":
            yield Bar(f"SciFact, {it.side.name}: nDCG@10 from {PUBLISHED}", SCIFACT_SLACK,
                      abs(it.ndcg - PUBLISHED), True, digits=2, remark=f"{it.ndcg:.4f}")
