"""The texts that are encoded, the same in every run: of a given number of tokens for timing, and
varied sentences for faithfulness."""
import ast
import hashlib
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = 500
# Of these: prose of this project, lines of code, and whole paragraphs, some of which are cut off.
# The rest is prose of programmers.
FROM_DOCUMENTS, FROM_LINES, FROM_PARAGRAPHS = 120, 60, 40
CHARACTERS = range(12, 700)
PARAGRAPH_CHARACTERS = range(500, 2500)
PASSED_OVER = {"site-packages", "__pycache__", "test", "tests", "idlelib", "target", "corpus"}


def tokenizer(model: Path, tokens_max: int) -> Tokenizer:
    """The published tokenizer, cutting off as the encoder does."""
    found = Tokenizer.from_file(str(model / "tokenizer.json"))
    found.no_padding()
    found.enable_truncation(tokens_max)
    return found


def of_tokens(model: Tokenizer, tokens: int, count: int) -> list[str]:
    """`count` different texts of `tokens` tokens: words of the vocabulary, each one token."""
    vocabulary = sorted(model.get_vocab().items(), key=lambda entry: entry[1])
    words = [word for word, _ in vocabulary if re.fullmatch("[a-z]{3,12}", word)]
    frame = len(model.encode("").ids)
    texts = []
    for text in range(count):
        places = (7919 * (text * tokens + i) % len(words) for i in range(tokens - frame))
        texts.append(" ".join(words[place] for place in places))
        assert len(model.encode(texts[-1]).ids) == tokens, "each word is one token"
    return texts


def varied(count: int) -> list[str]:
    """Up to 500 sentences from Python's own library and this repository: those whose hashes come
    first, so that a sentence more or less elsewhere changes nothing else."""
    chosen = _first(_sentences(_documents()), FROM_DOCUMENTS)
    chosen += _first(_lines(), FROM_LINES, chosen)
    chosen += _first(_paragraphs(), FROM_PARAGRAPHS, chosen)
    chosen += _first(_sentences(_docstrings()), SENTENCES - len(chosen), chosen)
    return _first(chosen, count)


def _first(texts: Iterable[str], count: int, chosen: Iterable[str] = ()) -> list[str]:
    """The first by hash that were not chosen before."""
    unlike = set(texts).difference(chosen)
    return sorted(unlike, key=lambda text: hashlib.sha256(text.encode()).digest())[:count]


def _files(root: Path, pattern: str) -> Iterator[str]:
    for path in sorted(root.rglob(pattern)):
        inside = path.relative_to(root).parts
        if not PASSED_OVER.intersection(inside) and not any(p.startswith(".") for p in inside):
            yield path.read_text(encoding="utf-8", errors="replace")


def _library() -> Iterator[str]:
    return _files(Path(sysconfig.get_paths()["stdlib"]), "*.py")


def _docstrings() -> Iterator[str]:
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for source in _library():
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, holders) and (text := ast.get_docstring(node)):
                yield from re.split(r"\n\s*\n", text)


def _documents() -> Iterator[str]:
    for source in _files(ROOT, "*.md"):
        prose = re.sub(r"```.*?```", "\n\n", source, flags=re.S)
        yield from re.split(r"\n\s*\n|\n[-*|] ?", prose)


def _sentences(paragraphs: Iterator[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        for sentence in re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split())):
            if len(sentence) in CHARACTERS and sentence.count(" ") >= 2:
                yield sentence


def _paragraphs() -> Iterator[str]:
    for paragraph in _docstrings():
        text = " ".join(paragraph.split())
        if len(text) in PARAGRAPH_CHARACTERS:
            yield text


def _lines() -> Iterator[str]:
    for source in _library():
        for line in source.splitlines():
            if len(line.strip()) in CHARACTERS and "(" in line and not line.lstrip().startswith("#"):
                yield line.strip()
