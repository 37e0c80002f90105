"""Checks the example of every page: `python3 format-spec/examples.py`. README.md, Examples, has the notation.

Bytes of an excerpt are compared with their file, values and checksums with the bytes beside them. Stores go through
reader.py, the ledger through ledger.py, tokens and sealed requests through the formulas of their pages. Exit code: 0
if every page has one example and all are right, else 1.
"""

import base64
import hashlib
import hmac
import os
import re
import struct
import sys
import tempfile

import ledger
import reader
from checks import crc32c

FOLDER = os.path.dirname(os.path.abspath(__file__))
FENCE = re.compile(r"^```(\w+) example-(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)
LINE = re.compile(r"([0-9a-f]{4,5})  ((?:[0-9a-f]{2,8} ?)*[0-9a-f]{2})(?:  +(\S.*))?")
VALUE = re.compile(r'[^=]+ = ("[^"]*"|-?\d+(?:\.\d+)?|[0-9a-z]{26})')


def load(path):
    with open(os.path.join(FOLDER, path), "rb") as file:
        return file.read()


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def bytes_of(code, file):
    """The bytes of a hexadecimal example; of an excerpt, those of its whole file."""
    fields, end = [], None if file else 0
    for line in code.splitlines():
        if line == "....":
            end = None
            continue
        offset, cells, text = LINE.fullmatch(line).groups()
        at, cells = int(offset, 16), bytes.fromhex(cells)
        assert at == end or file and end is None, f"a gap before {offset}"
        end = at + len(cells)
        if text:
            fields.append([at, cells, text])
        else:
            fields[-1][1] += cells
    data = load(file) if file else b"".join(cells for _, cells, _ in fields)
    for at, cells, text in fields:
        assert data[at : at + len(cells)] == cells, f"other bytes at {at:04x}"
        assert is_right(cells, text, data), f"{at:04x}: {text}"
    return data


def is_right(cells, text, data):
    """Returns true if the bytes have the checksum or the values that the text states, or if the text states none."""
    ranges = re.findall(r"([0-9a-f]{4,5})\.\.([0-9a-f]{4,5})", text)
    covered = b"".join(data[int(start, 16) : int(end, 16)] for start, end in ranges)
    if "CRC-32C of" in text:
        place = re.search(r"the place at ([0-9a-f]+)", text)
        front = data[16:40] + struct.pack("<Q", int(place[1], 16)) if place else b""
        return crc32c(front, covered) == int.from_bytes(cells, "little")
    if "SHA-256 of" in text:
        name = re.search(r'SHA-256 of "(\w+)"', text)
        return sha256(name[1].encode() if name else covered) == cells
    values = [VALUE.fullmatch(part) for part in text.split(";")[0].split(": ")[-1].split(", ")]
    size = len(cells) // len(values)
    return not all(values) or all(is_value(cells[i * size :][:size], found[1]) for i, found in enumerate(values))


def is_value(cells, value):
    if value.startswith('"'):
        text = value[1:-1].encode()
        return cells in (text, text + b"\0", struct.pack("<I", len(text)) + text)
    if "." in value:
        return cells == struct.pack("<e" if len(cells) == 2 else "<f", float(value))
    number = int.from_bytes(cells, "little", signed=value.startswith("-"))
    return value in (str(number), reader.id_text("", number))


def is_sent(code):
    """Returns true if each message of HTTP has the length that its head states."""
    messages = [part.partition("\n\n") for part in re.split(r"\n\n(?=HTTP/1\.1 )", code.rstrip("\n"))]
    lengths = [int((re.findall(r"^content-length: (\d+)$", head, re.M) or [0])[0]) for head, _, _ in messages]
    return lengths == [len(body.encode()) for _, _, body in messages]


class Formulas:
    """By name of a page: true if its example, and the rest of its text, have the right hashes and signatures."""

    def eval(code, page):
        return sha256(b"eval items 2", sha256(*code.encode().splitlines(True)[:2])).hex() in page

    def ledger(data, page):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, f"ledger-{1:020}.log"), "wb") as file:
                file.write(data)
            key = bytes.fromhex(re.search(r"public key `(\w{64})`", page)[1])
            checked = ledger.Ledger(folder, [key], "local", None).check()
            return checked.fault is None and checked.signed_seq == 1

    def limits(code, page):
        return all(len(text) == int(size) for size, text in map(str.split, code.splitlines()))

    def pages(data, page):
        key, browser = bytes([7]) * 32, bytes([8]) * 32
        first = hmac.digest(key, b"recalld sign-in request 1\0" + data[:25] + data[89:], "sha256")
        return data[25:89] == first + hmac.digest(key, b"recalld sign-in browser 1\0" + browser + first, "sha256")

    def wire(data, page):
        key = bytes.fromhex(re.search(r"public key `(\w{64})`", page)[1])
        is_signed = ledger.is_signed(key, b"grounding token v1\0" + data[:50], data[50:])
        return is_signed and base64.urlsafe_b64encode(data).decode() in page


def check(page, kind, name, file, code):
    store = re.match(r"vectors/v[^/]*", file)
    lines = set(reader.Store(os.path.join(FOLDER, store[0])).lines()) if store else set()
    if kind == "hex":
        code = bytes_of(code, file)
    elif store:
        assert set(code.splitlines()) <= lines, "the store has other lines"
    else:
        assert not file or code.encode() == load(file), f"{file} has another text"
        assert kind != "http" or is_sent(code), "the length of a body"
    assert getattr(Formulas, name, lambda *_: True)(code, page), "a hash or a signature"


def main():
    names = sorted(name[:-3] for name in os.listdir(FOLDER) if name.endswith(".md") and name != "README.md")
    wrong = 0
    for name in names:
        try:
            page = load(name + ".md").decode()
            examples = FENCE.findall(page)
            assert [example[1] for example in examples] == [name], f"{len(examples)} examples"
            check(page, *examples[0])
        except Exception as error:
            print(f"examples.py: {name}.md: {error!r}", file=sys.stderr)
            wrong += 1
    print(f"{len(names) - wrong} of {len(names)} examples are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
