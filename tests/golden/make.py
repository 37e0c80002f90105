"""Builds the golden data that hold the encoder to the original model.

    python make.py MODEL_DIR            (Python 3.11, packages torch, transformers, tokenizers)

MODEL_DIR holds the published files of sentence-transformers/all-MiniLM-L6-v2. Token ids come from the
`tokenizers` package reading the published tokenizer.json, vectors from the BertModel of `transformers`
run by torch in float64 (so that the reference carries no rounding of its own), mean pooling over all
tokens, unit length. Writes beside itself:

    minilm.jsonl      {text, ids, vector}     sentences; ids cut to 256, vectors rounded to 8 decimals
    tokens.jsonl      {text, ids}             strings that are hard to cut up; ids cut to 256
    characters.jsonl  {first, sha256}         256 code points a line, from `first` on: SHA-256 over the
                                              little-endian u32 ids of "x<c>y <c>" for each, no [CLS]/[SEP]

and encoder/src/unicode.rs: the character classes as the tokenizer has them, asked one code point at a time.
`python make.py --classes` writes nothing but that file, and needs no model.

Everything is fixed: the same packages give the same bytes.
"""

import hashlib
import json
import random
import struct
import sys
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.normalizers import NFD, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

HERE = Path(__file__).parent
TOKENS_MAX = 256
PLANES_END = 0x30000  # planes 0 to 2: everything assigned that a text may hold, tags and private use aside

SENTENCES = [
    "",
    " ",
    "hello",
    "a",
    "?",
    "The quick brown fox jumps over the lazy dog.",
    "We decided to keep the write-ahead log on a separate disk.",
    "Which database did we choose for the billing service, and why?",
    "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers",
    "Paris is the capital of France.",
    "What is the capital of France?",
    "the cat sat on the mat",
    "A feline rested upon a rug.",
    "ALL CAPITALS SHOUTING LOUDLY",
    "caf\u00e9 r\u00e9sum\u00e9 na\u00efve co\u00f6perate",
    "cafe\u0301 re\u0301sume\u0301 (decomposed)",
    "\u00c5ngstr\u00f6m \u00d8re\u00e5sund \u0141\u00f3d\u017a \u0130stanbul",
    "Stra\u00dfe gro\u00df \u1e9e",
    "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0401\u043b\u043a\u0430 \u0438 \u0439\u043e\u0433\u0430.",
    "\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u03ba\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u039a\u039f\u03a3\u039c\u039f\u03a3",
    "\U0001f600 \U0001f680 launch day! \U0001f469\u200d\U0001f4bb\u2764\ufe0f",
    "fn main() { println!(\"{}\", x.iter().map(|v| v * 2).sum::<u64>()); }",
    "SELECT id, name FROM users WHERE created_at > '2026-01-01' ORDER BY id DESC LIMIT 10;",
    "https://example.org/path/to/page?query=1&lang=en#section-2",
    "Send mail to first.last+tag@example.com before 17:30.",
    "/usr/local/lib/python3.11/site-packages/numpy/__init__.py",
    "C:\\Users\\someone\\AppData\\Local\\Temp\\file.tmp",
    "control\u0000 characters\u0007 \u001b[31mred\u001b[0m \u200bzero\u00adwidth\ufeff",
    "tabs\tand\nnewlines\r\nand\u00a0no-break\u2003em\u2028line",
    "[CLS] typed by a person [SEP] and [MASK] too [PAD] [UNK]",
    "[cls] [sep] are not special in lower case, nor is [ SEP ]",
    "1234567890 3.14159 -42 1e-9 0xDEADBEEF 1,000,000.00",
    "The meeting is on 2026-07-16 at 09:00 UTC in room B-12.",
    "E = mc\u00b2; \u222b f(x) dx = F(b) \u2212 F(a); \u2200x \u2208 \u211d",
    "$100 \u20ac200 \u00a3300 \u00a5400 50% off",
    "mixed \u0441\u043a\u0440\u0438\u043f\u0442\u044b and \u6587\u5b57 with \u03b1\u03b2\u03b3 in one line",
    "don't can't won't it's rock'n'roll \u2018quoted\u2019 \u201cdouble\u201d",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 100,
    "x" * 101,
    "short " + "y" * 400 + " end",
    "ha " * 20,
    "word " * 300,
    "The store keeps every version of an item and says which one is current. " * 30,
    "\u4e2d\u6587" * 200,
    " ".join(f"item-{i}: value {i * i}" for i in range(120)),
    "deployment failed because the certificate expired",
    "the TLS cert ran out, so the rollout broke",
    "Remember that Alice prefers tea over coffee.",
    "What does Alice like to drink?",
    "git rebase --onto main feature~3 feature",
    "{\"key\": [1, 2.5, null, true], \"nested\": {\"a\": \"b\"}}",
    "# Heading\n\n- first\n- second\n\n> quote `code` **bold**",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.",
    "\ufb01ne \ufb02our \u2160\u2161\u2162 \u2460 \u00bd \uff21\uff22\uff23 \ufeb3",
    "e\u0323\u0301\u0308 o\u0304\u0328 \u1ec7 \u1e69 a\u0345",
    "\ue000private \ud7ff \ufffd replacement",
]

PIECES = [
    "hello", "world", "unaffable", "Embedding", "tokenization", "HTTP/1.1", "state-of-the-art", "__init__",
    "caf\u00e9", "cafe\u0301", "\u00c9COLE", "\u0130", "\u1e9e", "\u00df", "\u017f", "\ufb03", "\u01c5",
    "\u4e00", "\u9fff", "\u3400", "\u4dbf", "\U00020000", "\U0002a6df", "\U0002b81f", "\U0002b820",
    "\U0002b920", "\U0002ceaf", "\uf900", "\ufaff", "\U0002f800", "\u3042\u3044", "\u30ab\u30bf", "\u3001",
    "\uac00", "\ud55c\uae00", "\u1112\u1161\u11ab", "\u0e01\u0e33", "\u0915\u094d\u0937", "\u0627\u064e",
    "\u05e9\u05b8\u05c1", "\u0f71\u0f72", "\u0f73", "\u0344", "\u1b44\u0323", "\U0001d165\U0001d16d",
    "\u302e\u0323", "\u00a0", "\u2003", "\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u001c", "\u200b",
    "\u200d", "\ufeff", "\u00ad", "\ufffd", "\u0000", "\u007f", "\ue000", "\U000e0001", "\u0378", "\t", "\r\n",
    "!", "...", "\u2026", "\u2014", "\u00bf", "\u3002", "\uff01", "$", "^", "`", "~", "|", "<", ">", "=", "+",
    "\u20ac", "\u00ac", "\u00d7", "[SEP]", "[CLS]", "[MASK]", "[PAD]", "[UNK]", "[sep]", "[SEP", "SEP]",
    "[[SEP]]", "[PAD][PAD]", "a[MASK]b", "##ing", "##", "#", "[unused1]", "\U0001f600", "\U0001f1eb\U0001f1f7",
    "\u2764\ufe0f", "1\ufe0f\u20e3", "0", "42", "3.14", "x" * 99, "x" * 100, "x" * 101, "\u00e9" * 100,
    "\u00e9" * 101, "\ud55c" * 34, "e" + "\u0301" * 300, "a\u0301\u0001\u0323b", "q\u0307\u0323", "\u2126",
    "\u212b", "\u1f80", "\u0390", "\u1fbe", "\ufb1d", "\U00010400", "\U0001d400", "\u10a0", "\u13a0", "\uab70",
]


def hard_strings():
    """Each piece alone, then pieces strung together at random, with and without spaces."""
    chance = random.Random(20260716)
    strings = list(PIECES)
    while len(strings) < 380:
        glue = chance.choice(["", " ", " ", "-", "\u0301", "\u200b", "\n"])
        strings.append(glue.join(chance.choice(PIECES) for _ in range(chance.randint(2, 12))))
    strings += ["word " * n for n in (252, 253, 254, 255, 256, 1000)]
    strings += ["unaffable " * n for n in (84, 85, 86, 128)]
    strings += ["[SEP]" * 300, "\u4e2d" * 300, "!" * 300, " " * 5000 + "end", "z" * 20000, "\u0301" * 5000]
    return strings


def ranges(code_points):
    """Runs of neighbours as first-last pairs."""
    runs = []
    for point in code_points:
        if runs and runs[-1][1] == point - 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return runs


def character_classes():
    """What the tokenizer drops, takes for an accent, for punctuation and for an ideograph."""
    points = [p for p in range(0x80, 0x110000) if not 0xD800 <= p <= 0xDFFF]
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    clean = BertNormalizer(**{**off, "clean_text": True}).normalize_str
    strip = BertNormalizer(**{**off, "strip_accents": True}).normalize_str
    space = BertNormalizer(**{**off, "handle_chinese_chars": True}).normalize_str
    split = BertPreTokenizer().pre_tokenize_str
    decompose = NFD().normalize_str

    def is_normalised(c):
        """Whether it decomposes, or changes places with a mark of the least or of the greatest class."""
        least, greatest = "\u0334", "\u0345"
        return (
            decompose(c) != c
            or decompose(c + least) != c + least
            or decompose(greatest + c) != greatest + c
        )

    return {
        "DROPPED": ranges(p for p in points if clean(f"a{chr(p)}b") == "ab"),
        "ACCENTS": ranges(p for p in points if strip(f"a{chr(p)}b") == "ab"),
        "NORMALISED": ranges(p for p in points if is_normalised(chr(p))),
        "IDEOGRAPHS": ranges(p for p in points if space(chr(p)) == f" {chr(p)} "),
        "PUNCTUATION": ranges(p for p in points if len(split(f"a{chr(p)}b")) == 3),
    }


def character_digests(tokenizer):
    for first in range(0, PLANES_END, 256):
        digest = hashlib.sha256()
        for point in range(first, first + 256):
            if not 0xD800 <= point <= 0xDFFF:
                c = chr(point)
                for i in tokenizer.encode(f"x{c}y {c}", add_special_tokens=False).ids:
                    digest.update(struct.pack("<I", i))
        yield {"first": first, "sha256": digest.hexdigest()}


def vectors(model_dir, ids_of_each):
    import torch
    from transformers import BertModel

    model = BertModel.from_pretrained(model_dir, add_pooling_layer=False, attn_implementation="eager")
    model = model.double().eval()
    with torch.no_grad():
        for ids in ids_of_each:
            hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            mean = hidden.mean(dim=0)
            yield [round(x, 8) for x in (mean / mean.norm()).tolist()]


UNICODE_HEAD = """//! Character classes as the published BERT tokenizers have them.
//!
//! Written by tests/golden/make.py, which asks the reference tokenizer about every code point past
//! ASCII; do not edit. Each table is a rising list of first and last code points. The reference is
//! older than today's Unicode, and stays as it is: a model knows the ids it was trained on.
"""

UNICODE_ABOUT = {
    "DROPPED": "Controls, formats, private use: gone when text is cleaned.",
    "ACCENTS": "Non-spacing marks: gone when accents are stripped.",
    "NORMALISED": "What canonical decomposition takes apart or puts in order. All else stays as and where\n"
    "/// it is, whatever younger tables than the reference's (Unicode 9) say.",
    "IDEOGRAPHS": "Ideographs: each is a word of its own.",
    "PUNCTUATION": "Punctuation: each is a word of its own.",
}


def rust_tables():
    """The source text of unicode.rs."""
    yield UNICODE_HEAD
    for name, runs in character_classes().items():
        yield f"\n/// {UNICODE_ABOUT[name]}\n#[rustfmt::skip]\npub(crate) const {name}: &[(u32, u32)] = &[\n"
        pairs = [f"(0x{first:X}, 0x{last:X})," for first, last in runs]
        for i in range(0, len(pairs), 4):
            yield "    " + " ".join(pairs[i : i + 4]) + "\n"
        yield "];\n"


def write(name, rows):
    lines = (json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (HERE / name).write_text("".join(lines), encoding="ascii")


def write_classes():
    tables = HERE.parent.parent / "encoder" / "src" / "unicode.rs"
    tables.write_text("".join(rust_tables()), encoding="ascii")


def main():
    if sys.argv[1:] == ["--classes"]:
        write_classes()
        return
    model_dir = Path(sys.argv[1])
    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS_MAX)

    ids = [tokenizer.encode(text).ids for text in SENTENCES]
    golden = zip(SENTENCES, ids, vectors(model_dir, ids))
    write("minilm.jsonl", ({"text": t, "ids": i, "vector": v} for t, i, v in golden))
    write("tokens.jsonl", ({"text": t, "ids": tokenizer.encode(t).ids} for t in hard_strings()))
    write("characters.jsonl", character_digests(tokenizer))
    write_classes()


if __name__ == "__main__":
    main()
