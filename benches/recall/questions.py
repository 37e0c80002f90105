"""Questions about a corpus, from its own texts: runs of 12 to 16 tokens, and three words each. Every one
is asked once of a server, so that no cache of answers has it."""
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

TOKENS = range(12, 17)
FRAME_TOKENS = 2  # the encoder's own, at the beginning and the end
RUN_WORDS = 24  # of which the question keeps as many as it has tokens for
WORD = re.compile("[a-z]{4,20}")
WORDS = 3


@dataclass(frozen=True)
class Questions:
    """Lists of questions, in the order in which they are asked."""

    runs: list[str]
    words: list[str]


def of_corpus(items: Path, tokenizer: Path, count: int, kept: Path) -> Questions:
    """`count` questions of each kind, the same in every run; made once."""
    if kept.exists():
        found = json.loads(kept.read_text())
        if len(found["runs"]) >= count:
            return Questions(found["runs"][:count], found["words"][:count])
    with items.open() as lines:
        texts = [json.loads(line)["text"].split() for line in lines]
    texts = [words for words in texts if len(words) >= 2 * WORDS]
    model = Tokenizer.from_file(str(tokenizer))
    model.no_padding()
    draw = random.Random(1)
    found = Questions(_runs(texts, model, count, draw), _words(texts, count, draw))
    kept.write_text(json.dumps({"runs": found.runs, "words": found.words}))
    return found


def _runs(texts: list[list[str]], model: Tokenizer, count: int, draw: random.Random) -> list[str]:
    found: dict[str, None] = {}
    for _ in range(100):
        wanted, runs = [], []
        for _ in range(count):
            words = draw.choice(texts)
            start = draw.randrange(max(1, len(words) - RUN_WORDS // 2))
            runs.append(" ".join(words[start:start + RUN_WORDS]))
            wanted.append(draw.choice(TOKENS))
        cut = []
        for run, tokens, encoded in zip(runs, wanted, model.encode_batch(runs)):
            if len(encoded.ids) >= tokens:
                cut.append(run[:encoded.offsets[tokens - FRAME_TOKENS][1]])
        # A cut within a word may have made other tokens of it.
        fits = (len(encoded.ids) in TOKENS for encoded in model.encode_batch(cut))
        found |= dict.fromkeys(text for text, fit in zip(cut, fits) if fit)
        if len(found) >= count:
            return list(found)[:count]
    raise SystemExit(f"run: the texts give only {len(found)} questions of {TOKENS.start} tokens or more")


def _words(texts: list[list[str]], count: int, draw: random.Random) -> list[str]:
    found: dict[str, None] = {}
    for _ in range(100 * count):
        words = sorted({word for word in draw.choice(texts) if WORD.fullmatch(word)})
        if len(words) >= WORDS:
            found[" ".join(draw.sample(words, WORDS))] = None
            if len(found) == count:
                return list(found)
    raise SystemExit(f"run: the texts give only {len(found)} questions of {WORDS} words")
