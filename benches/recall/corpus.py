"""What is asked about: a data directory of ours, and the same items as the peers read them. Made once in
a folder of its own, and used again by the next run."""
import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from process import WorkerError

HERE = Path(__file__).resolve().parent
ENGINE = HERE.parent.parent / "engine" / "src"
# What decides how a segment's file is written: which bytes, and how many at a time.
WRITING = ("layout.rs", "merge", "merge.rs", "os", "segment", "store/job.rs", "words")
EDGES_PER_ROW = 4
# Real paragraphs: from and to how many bytes; others are left out.
PARAGRAPH_BYTES = range(120, 2001)
TEXT_FILES = {".txt", ".md", ".rst", ".rs", ".py", ".html"}
TITLE_WORDS = 5


@dataclass(frozen=True)
class Programs:
    """Ours, as released, and what goes with it."""

    server: Path
    worker: Path
    tantivy: Path | None

    @staticmethod
    def sources() -> list[Path]:
        """What decides how a corpus comes out."""
        worker = HERE.parent / "examples" / "recall_worker"
        places = [worker / "made.rs", worker / "dump.rs", *(ENGINE / name for name in WRITING)]
        return [source for place in places for source in _sources_of(place)]


@dataclass(frozen=True)
class Corpus:
    """Where the things of one corpus are."""

    folder: Path
    rows: int

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def dump(self) -> Path:
        return self.folder / "dump"

    @property
    def peer(self) -> Path:
        return self.folder / "peer"

    @property
    def tantivy(self) -> Path:
        return self.folder / "tantivy"

    def ids(self) -> list[str]:
        return (self.dump / "ids.txt").read_text().split()


def _sources_of(place: Path) -> list[Path]:
    """A file, or all beneath a folder but its tests."""
    if not place.is_dir():
        return [place]
    return sorted(path for path in place.rglob("*.rs") if not path.name.startswith("tests"))


def made(folder: Path, programs: Programs, rows: int, edges: bool = True) -> Corpus:
    """A corpus of made-up items. One without edges is for scans alone, and has no peer but faiss."""
    corpus = Corpus(folder / (f"made-{rows}" if edges else f"made-{rows}-vectors"), rows)
    if not _is_done(corpus, programs):
        count = str(EDGES_PER_ROW * rows if edges else 0)
        _begin(corpus, f"making {rows} items")
        _do(programs.worker, "make", "--data", corpus.data, "--rows", str(rows), "--edges", count)
        _end(corpus, programs, with_peers=edges)
    return corpus


def made_alone(folder: Path, programs: Programs, rows: int) -> Corpus:
    """The same items, of which no peer reads anything."""
    corpus = Corpus(folder / f"made-{rows}-alone", rows)
    if not _is_done(corpus, programs):
        _begin(corpus, f"making {rows} items")
        _do(programs.worker, "make", "--data", corpus.data, "--rows", str(rows), "--edges", str(EDGES_PER_ROW * rows))
        _stamp_it(corpus, programs)
    return corpus


def real(folder: Path, programs: Programs, texts: Path, rows: int) -> Corpus:
    """A corpus of up to `rows` real texts: the paragraphs of the text files under a folder, or a file of
    JSON Lines: our own form, or objects with a `text` and perhaps a `title`."""
    name = hashlib.sha256(str(texts.resolve()).encode()).hexdigest()[:12]
    corpus = Corpus(folder / f"real-{name}-{rows}", rows)
    if not _is_done(corpus, programs):
        _begin(corpus, f"importing up to {rows} texts of {texts}")
        lines = corpus.folder / "lines.jsonl"
        with lines.open("w") as file:
            for line in _lines(texts, rows):
                file.write(json.dumps(line) + "\n")
        _do(programs.server, "import", lines, "--data", corpus.data)
        _do(programs.server, "compact", "--data", corpus.data)
        _end(corpus, programs, with_peers=True)
    return Corpus(corpus.folder, len(corpus.ids()))


def forget(folder: Path) -> None:
    """All corpora of a folder."""
    for made_by in folder.glob("*/made-by"):
        shutil.rmtree(made_by.parent)


def _stamp(corpus: Corpus, programs: Programs) -> tuple[Path, str]:
    """What a corpus was made by: our store's form may change with the worker and the engine, the peer's with
    its code."""
    decides = hashlib.sha256()
    for source in (HERE / "peer" / "build.py", *programs.sources()):
        decides.update(source.read_bytes())
    return corpus.folder / "made-by", decides.hexdigest()


def _is_done(corpus: Corpus, programs: Programs) -> bool:
    stamp, decides = _stamp(corpus, programs)
    return stamp.exists() and stamp.read_text() == decides


def _begin(corpus: Corpus, what: str) -> None:
    print(f"run: {what}; the next run finds them", file=sys.stderr, flush=True)
    shutil.rmtree(corpus.folder, ignore_errors=True)  # what an earlier run left half done
    corpus.folder.mkdir(parents=True)


def _end(corpus: Corpus, programs: Programs, with_peers: bool) -> None:
    only = [] if with_peers else ["--vectors-only"]
    _do(programs.worker, "dump", "--data", corpus.data, "--folder", corpus.dump, *only)
    if with_peers:
        _do(sys.executable, HERE / "peer" / "build.py", corpus.dump, corpus.peer)
    _stamp_it(corpus, programs)


def _stamp_it(corpus: Corpus, programs: Programs) -> None:
    stamp, decides = _stamp(corpus, programs)
    stamp.write_text(decides)


def _do(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        words = " ".join(map(str, command[:3]))
        raise WorkerError(f"{words}: ended with {done.returncode}: {done.stderr.strip()[-600:]}")


def _lines(texts: Path, rows: int) -> Iterator[dict]:
    if texts.is_file():
        yield from _of_file(texts, rows)
        return
    found = dict.fromkeys(_paragraphs(texts))
    if not found:
        raise WorkerError(f"{texts}: no paragraphs; files of UTF-8 text are wanted that end in "
                          f"{', '.join(sorted(TEXT_FILES))}")
    chosen = list(found)[:rows]
    for number, text in enumerate(chosen):
        title = " ".join(text.split()[:TITLE_WORDS])
        yield {"type": "item", "ref": f"text-{number}", "title": title, "text": text}
    draw = random.Random(1)
    for _ in range(EDGES_PER_ROW * len(chosen)):
        start, end = draw.randrange(len(chosen)), draw.randrange(len(chosen))
        if start != end:
            yield {"type": "edge", "from": f"text-{start}", "to": f"text-{end}", "relation": "links_to",
                   "weight": round(draw.random(), 2)}


def _of_file(texts: Path, rows: int) -> Iterator[dict]:
    items = 0
    with texts.open() as file:
        for line in file:
            found = json.loads(line)
            if "type" not in found:
                name = found.get("_id") or f"text-{items}"
                found = {"type": "item", "ref": name, "title": found.get("title", ""), "text": found["text"]}
            items += found["type"] == "item"
            if items > rows:
                return
            yield found


def _paragraphs(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix not in TEXT_FILES or not path.is_file():
            continue
        try:
            source = path.read_text()
        except UnicodeDecodeError:
            continue
        for paragraph in source.split("\n\n"):
            text = paragraph.strip()
            if len(text.encode()) in PARAGRAPH_BYTES:
                yield text
