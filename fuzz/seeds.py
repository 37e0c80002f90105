#!/usr/bin/env python3
"""Writes a few seeds into corpus/, next to this file: well-formed inputs for the fuzzer to change."""

import random
import re
from pathlib import Path

HERE = Path(__file__).parent / "corpus"
HOSTILE = Path(__file__).parent.parent / "tests" / "hostile"
REMOTE = Path(__file__).parent.parent / "format-spec" / "vectors" / "remote"


def without_hash(record):
    """The first line of a record and its body: the hash between them is made anew."""
    line, _hash, body = record.split(b"\n", 2)
    return line + b"\n" + body


def steps(seed):
    """A long run of steps: mostly writes at first, so that there is something to merge and erase."""
    dice = random.Random(seed)
    writes = [dice.choice((0, 20, 60, 2, 3, 4, 12)) for _ in range(dice.randrange(6, 16))]
    whats = writes + [dice.randrange(240) for _ in range(40 - len(writes))]
    return bytes([seed * 5 % 256]) + b"".join(bytes([what, dice.randrange(256)]) for what in whats)


def written_out(text):
    """What a line of tests/hostile/ sends; its README says how it is written. Sessions are nobody's."""
    names = {"{host}": "localhost", "{bearer}": "bearer", "{session1}": "A" * 32, "{session2}": "B" * 32}
    for name, value in names.items():
        text = text.replace(name, value)
    text = re.sub(r"\{(\d+)\*([^}]*)\}", lambda found: found[2] * int(found[1]), text)
    plain = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\"}
    pieces = re.split(rb"\\(x[0-9a-f]{2}|.)", text.encode())
    for at in range(1, len(pieces), 2):
        escape = pieces[at].decode()
        pieces[at] = bytes([int(escape[1:], 16)]) if escape[0] == "x" else plain[escape]
    return b"".join(pieces)


def hostile():
    """Each case of tests/hostile/: its file, and (fields, body) of each POST to /mcp or (None, bytes)."""
    cases = []
    for path in sorted(HOSTILE.glob("*.txt")):
        fields = []
        for line in path.read_text().splitlines():
            kind, rest = line[:1], line[1:].removeprefix(" ")
            if kind == "=":
                cases.append((path.stem, []))
            elif kind == "&":
                fields.append(written_out(rest))
            elif kind == "*":
                cases[-1][1].append((fields, written_out(rest)))
                fields = []
            elif kind in (">", "|") and line:
                cases[-1][1].append((None, written_out(rest + "\\r\\n" * (kind == ">"))))
    return cases


HOSTILE_BYTES = [b"".join(sent for fields, sent in sends if fields is None) for _, sends in hostile()]
def mcp_seed(fields, body):
    """A message for the target `mcp`: four choices, a line for the header that is filled in, the body."""
    filled = [b"Last-Event-ID", b"Mcp-Session-Id", b"Mcp-Name", b"Mcp-Method", b"MCP-Protocol-Version", b"Accept",
              b"Content-Type", b"Mcp-Param-Region"]
    revisions = [b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25", b"2026-07-28", b"1999-01-01"]
    pairs = dict(field.split(b": ", 1) for field in fields)
    revision = pairs.pop(b"MCP-Protocol-Version", b"")
    pairs.pop(b"Mcp-Method", None)
    which = revisions.index(revision) if revision in revisions else 7
    name, line = next(((filled.index(name), line) for name, line in pairs.items() if name in filled), (15, b""))
    # A character of the line is a byte of the seed, less the space that it begins with.
    line = bytes((byte - 32) % 95 for byte in line)
    return bytes([0, which, 1, name]) + line + b"\n" + body


HEAD = b"POST /recall HTTP/1.1\r\nHost: localhost\r\n"
SEEDS = {
    # First byte: where the bytes are cut in two.
    "http": [
        b"\x80GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x40" + HEAD + b"Content-Length: 2\r\n\r\n{}GET / HTTP/1.0\r\n\r\n",
        b"\xc0" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nT: x\r\n\r\n",
        b"\x10" + HEAD + b"Expect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
        b"\x20GET /a%20b?q=%C3%A9 HTTP/1.1\r\nHost: [::1]:80\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    + [b"\x80" + sent for sent in HOSTILE_BYTES if 0 < len(sent) < 4096],
    "mcp": [mcp_seed(fields, body) for _, sends in hostile() for fields, body in sends
            if fields is not None and len(body) < 4096]
    + [bytes([4, 3, 1, 0, 0x11, 0x0D, 0x11]) + b"\n", bytes([5, 3, 1, 15]) + b"\n"],
    # First byte: bytes for records, bytes within a session, one record spoilt. Second: the size, or where.
    "tls": [bytes([how, size]) + sent for how, size in ((0, 128), (1, 255), (1, 0)) for sent in HOSTILE_BYTES[::4]
            if 0 < len(sent) < 1024]
    + [bytes([2, at, 1]) for at in range(0, 60, 7)],
    "origins": [b"https://app.example", b"http://localhost:3000", b"http://[::1]:5173", b"/a%20b%C3%A9", b"null"],
    "bodies": [
        b'{"query": "why", "limit": 5, "graph": true, "neighbor_limit": 2}',
        b'{"query": "why", "limit": "5", "prefer_replacements": "yes", "modality": null}',
        b'{"query": 1, "limit": 5.5, "graph": "maybe"}',
        b'[1, 2.5e3, "\\ud83d\\ude00", NaN, -Infinity]',
    ],
    # First byte: which file, and whether to patch it (below 0x80) or to replace it.
    "encoder_open": [
        b"\x00", b"\x01", b"\x02", b"\x02\x08\x00\x00\x7b",
        b'\x80{"model_type": "bert", "hidden_size": 8}',
        b'\x82\x02\x00\x00\x00\x00\x00\x00\x00{}',
    ],
    # First byte: which precision (modulo 3), made up (0x40), checksums left wrong (0x80).
    "weights": [bytes([which]) for which in range(3)]
    + [bytes([how | which, at & 255, at >> 8, 0, 1]) for how in (0, 0x80) for which in range(3)
       for at in (4, 16, 60, 96, 100, 130, 140, 150, 900, 4100)]
    + [b"\x40RCLDWTS\x00\x01\x00\x01\x00\x01\x00\x00\x00"],
    "tokens": [b"The cats.", b"[MASK] a-b \xc3\xa9 \xe4\xb8\xad", b"abcabcabcabc"],
    # First byte: the settings. Second: where to cut off. Third: where to put a space.
    "tokenizer": [
        bytes([settings, limit, 128]) + text.encode()
        for settings in (0, 1, 2, 4, 8, 16, 32, 64, 127)
        for limit, text in (
            (3, "The abc. \u00c9 [SEP] [SEP]] [sep"),
            (200, "a\u302e\u0301\u1b44 \u1b44\u302e\U0001d16d\u0334 \u0130\u03a3\u1e9e"),
            (0, "\u4e2d\u6587\uac01\u1100\u1161\u11a8 \uf900"),
            (9, "a\u200bb\x00c\x85\u2028\ufeff\x0b abcabcabc"),
        )
    ],
    "access_tokens": [b"\x01\x00\x00A", b"\x60\x00\x00e", b"a.b.c"],
    # First byte: a form, a registration, URIs, a header.
    "forms": [
        b"\x00grant_type=authorization_code&client_id=a&scope=tenant:read+brain:proxy&resource=https%3A%2F%2Fa.example",
        b"\x00code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&code_verifier=a",
        b'\x01{"redirect_uris": ["https://a.example/cb", "http://127.0.0.1:3000/"], "client_name": "A",'
        b'"token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token"]}',
        b"\x02http://127.0.0.1:3000/cb?a=b http://127.0.0.1:4000/cb?a=b",
        b"\x02https://a.example/client.json https://a.example/client.json",
        b"\x02com.example.app:/cb http://[::1]:5/",
        b"\x03Basic YSUyRGI6c2VjcmV0",
    ],
    "grounding": [b"\x01\x00\x00A", b"x"],
    # First byte: which table.
    "control": [
        bytes([table]) + json
        for table, json in enumerate((
            b'{"version":1}',
            b'{"slug":"acme","title":"t","plan":"team","state":"active","made_at":1,"email":"a@b","calls_per_month":9}',
            b'{"tenant":"acme","id":"k1","kind":"once","name":"ann","scopes":["tenant:read"],"made_at":1,"expires_at":2,'
            b'"state":"spent","ended_at":2}',
            b'{"hash":"' + b"0a" * 32 + b'"}',
            b'{"id":"c1","name":"n","redirect_uris":["https://a/"],"auth_method":"none","secret":"' + b"0b" * 32
            + b'","made_at":1,"used_at":2}',
            b'{"tenant":"acme","id":"g1","principal":"user:ann","client":"c1","credential":"k1","scopes":[],'
            b'"resource":"https://a/mcp","made_at":1,"expires_at":2,"number":0,"family":"' + b"0c" * 32
            + b'","refresh":"' + b"0d" * 32 + b'"}',
            b'{"tenant":"acme","grant":"g1"}',
            b'{"tenant":"acme","principal":"p","client":"c1","credential":"k1","scopes":[],"resource":"r",'
            b'"redirect_uri":"u","challenge":"c","expires_at":2,"grant":"g1"}',
            b'{"expires_at":18446744073709551615}',
            b'{"tenant":"acme","address":"a@b","expires_at":2}',
            b'{"seq":1,"head":"' + b"0e" * 32 + b'","at":1}',
            b'{"seed":"' + b"0f" * 32 + b'","made_at":1,"retired_at":2,"published_until":3}',
            b'{"begun_at":1,"used":5,"blocks":[{"id":7,"calls":64,"used":5,"expires_at":600}]}',
        ))
    ],
    # First byte: which segment, and whether checksums are mended (below 0x80) and all is rewritten.
    "segment": [bytes([which, 64, 0, 0, 1]) for which in range(4)]
    + [bytes([0x40 | which, 64, 0, 0, 1]) for which in range(4)],
    "index": [b"", b"\x18\x00\x00\x02", b"\x80\x00\x00\x7f", b"\x80\x03\x00\x01"],
    "state": [b"", b"\x40\x00\x00\xff", b"\x48\x00\x00\x07"],
    # First byte: which store, and whether fields (below 0x80) or bytes are changed.
    "manifest": [bytes([which, field, how, 2, 0]) for which in range(3) for field in range(0, 40, 3) for how in (1, 2, 4)]
    + [b"\x80\x10\x00\x00\x30"],
    # First byte: which log. Second: how its frames are changed, and how many records they have.
    "log": [
        bytes([which]) + how
        for which in range(3)
        for how in (
            b"\x00",
            b"\x01\x04" + (32).to_bytes(4, "little") + bytes(16) + bytes(8) + bytes(8),
            b"\x80\x60\x00\x00\x02",
            b"\xc0\x48\x00\x00\x02",
        )
    ],
    # First byte: strict, dry run.
    "lines": [
        b'\x00{"type":"item","text":"one storm","ref":"a"}\n{"type":"item","text":"two","supersedes":["a"],"tags":["x"]}\n',
        b'\x01{"type":"edge","from":"b","to":"a","relation":"links_to","weight":0.5}\n'
        b'{"type":"item","text":"one","ref":"a","source":{"kind":"file","uri":"file:///a"}}\n'
        b'{"type":"item","text":"two","ref":"b","tombstoned":true,"attributes":{"a":[1]},"valid_from":"2025-01-01T00:00:00Z"}\n',
        b'\x02{"type":"source","kind":"file","uri":"file:///a","bytes":3}\n{"type":"tombstone","target":"a","by":"x"}\n',
        b'\x00{"type":"item","text":"t","embedding":[1],"sensitivity":"public","span":{"byte_start":1,"byte_end":4}}\n',
    ],
    # First byte: how the store is opened. Then two bytes a step: what (modulo 20), and to which row.
    "operations": [
        bytes([0, 0, 0, 0, 0, 4, 1, 12, 0, 2, 0, 6, 1, 16, 0, 0, 0, 12, 0, 14, 0]),
        bytes([4, 0, 0, 1, 0, 4, 1, 12, 0, 0, 0, 12, 0, 8, 1, 36, 0, 2, 0, 17, 0, 8, 0, 16, 0]),
    ]
    + [steps(seed) for seed in range(64)],
    "ledger": [b"\x00", b"\x00\x40\x00\x00\x01", b"\x01"],
    # First byte: the kind of file.
    "readers": [
        b"\x00---\ntitle: a\n---\n# One\n\ntext [x](b.md)\n\n```rust\nfn f() {}\n```\n## Two\n| a |\n|---|\n",
        b"\x01<html><head><title>a</title></head><body><h1>b</h1><p>c<a href='d.html'>e</a><pre>f\n</pre>",
        b"\x02Title\n=====\n\n.. note:: x\n\n   body\n\n`link <a.rst>`_ :pep:`8`\n\nTwo\n---\n::\n\n   code\n",
        b"\x03one\ntwo\n\nthree\n",
        b"\x04//! Doc.\n#[test]\nfn f() { let s = \"}\"; }\nimpl A { fn g() {} }\n",
        b"\x05import os\n\n@x\nclass A:\n    def f(self):\n        '''doc'''\n",
        b"\x06export function f(): void {}\n/* { */ class B {}\n",
    ],
    # First byte: a small object or a name (0), a record as it is (1), a line under right hashes and its body (2).
    "remote_record": [
        bytes([0]) + path.read_bytes() for path in sorted(REMOTE.glob("*.json"))
    ]
    + [b"\x00t/local/edge/00000000000000000007-00000000000000000002", b"\x00t/local/chain/00000000000000000012"]
    + [bytes([1]) + path.read_bytes() for path in sorted(REMOTE.glob("*.record"))]
    + [bytes([2]) + without_hash(path.read_bytes()) for path in sorted(REMOTE.glob("*.record"))],
    "words": [bytes([column, 20, 0, 0, 9]) for column in range(5)],
}

for target, seeds in SEEDS.items():
    folder = HERE / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(seed)
