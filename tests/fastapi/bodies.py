"""Bodies and content types to ask with: what was thought of, and what a seeded generator makes of it.

Knows JSON and what request models look like from outside; must not know who is asked.
"""

import json
import random

SEED = 20261121
RANDOM_BODIES = 500
JSON = "application/json"
FIELDS = ["query", "limit", "graph", "neighbor_limit", "modality", "prefer_replacements"]
NAMES = FIELDS + ["query", "query", "extra"]

INTS = (
    "0 1 -1 5 20 21 50 51 -0 5.0 5.5 0.0 -0.0 5e0 50.0 51.0 1e1 1E+1 10e-1 0.9999999999999999999 "
    "1e-400 1e16 1e17 1e300 1e400 -1e400 9223372036854775807 9223372036854775808 -9223372036854775808 "
    "-9223372036854775809 9223372036854774784.0 9223372036854775807.0 -9223372036854775808.0 -9223372036854774784.0 "
    "1e19 2147483648 123456789012345678901234567890 NaN Infinity -Infinity true false null [] [5] {} "
    "01 +5 .5 5. 1e 1e+ -"
).split()
TEXTS = (
    ["", " ", "5", " 5 ", "+5", "-5", "05", "+05", "-05", "5.", ".", ".0", "5.0", "5.00", "5.1", "5.0_0", "5_.0"]
    + ["1_0", "1__0", "_1", "1_", "1_0.0", "+1_0", "++5", "+-5", "-+5", "-0", "00", "0_0", "0_5", "0__5", "00_5", "0_"]
    + ["0-5", "0-05", "+0-5", "0_-_5", "0-0", "0-", "-0-5", "0+5", "-_5", "-0_5", "+_5", "-.0", "+.0", "-0.0", "+", "-"]
    + ["5e0", "0x5", "inf", "nan", "true", "5 .0", "1 0", "\u0665", "\uff15", "5\x00", "\x1f5", "5\n", "\v5\f", "20.0"]
    + [
        "\u00a05",
        "\u20285",
        "\u00855",
        "\u200b5",
        "\ufeff5",
        "\u30005",
        "99999999999999999999",
        "99999999999999999999.0",
    ]
    + ["-99999999999999999999", "9223372036854775808", "9_9" * 9, "50", "51", "21", "-1", "\ud800", "5\udfff"]
    + ["yes", "YES", "Yes", "no", "on", "off", "ON", "Off", "t", "f", "T", "F", "y", "n", "Y", "N", "true", "TRUE"]
    + ["false", "False", "1", "0", "2", " yes", "no ", "1.0", "0.0", "ye\u017f", "enable", "o\u212b", "tru", "image"]
    + ["1" * 200, "\u00e9\U0001f600", '"quoted\\"', "tab\there", "\u007f\u2028/", "null"]
)
BROKEN = (
    [
        "",
        " ",
        "null",
        " null ",
        "[]",
        '"x"',
        '""',
        "5",
        "5.5",
        "true",
        "false",
        "{}",
        "[{}]",
        "[NaN]",
        "NaN",
        "-Infinity",
    ]
    + ["nul", "tru", "fals", "N", "Na", "Infinit", "-Infinit", "-", "--1", "+1", "01", "-01", "1.", "1.e5", "1e", "1e-"]
    + [
        ".5",
        "0x10",
        "1_0",
        "x",
        "'a'",
        "{",
        "[",
        "]",
        "}",
        ",",
        ":",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2",
        "[1 2]",
        "[]]",
    ]
    + ["{]", "{1:2}", "{a:1}", "{'a':1}", '{"a"', '{"a" ', '{"a" 1', '{"a":', '{"a": ', '{"a":}', '{"a":1', '{"a":1 ']
    + ['{"a":1,', '{"a":1, ', '{"a":1,}', '{"a":1, }', '{"a":1 "b"', '{"a":1;', "{,}", '{"a"::1}', '{"a":1}}', "{} {}"]
    + ['"', '"a', '"\\', '"\\"', '"\\x"', '"\\u', '"\\u1', '"\\u12', '"\\u123', '"\\u1234', '"\\u123g"', '"\\u 123"']
    + ['"\\ud800', '"\\ud800"', '"\\ud800\\"', '"\\ud800\\u"', '"\\ud800\\u12"', '"\\ud800\\u123g"', '"\\ud800\\u0041"']
    + [
        '"\\ud83d\\ude00"',
        '"\\ud83d\\ude00',
        '"\\ud83d\\ud83d\\ude00"',
        '"\\ude00\\ud83d"',
        '"\\uD83D\\uDE0',
        '"\\U1234"',
    ]
    + [
        '"\\u\u0661234"',
        '"\\ud800\\u\u00e9\u00e9"',
        '"a\tb"',
        '"a\nb"',
        '"\x00"',
        '"\x1f"',
        '"\x7f"',
        "\x0c{}",
        "\u00a0{}",
    ]
    + [
        "\u00e9",
        '{"\u00e9\U0001f600": x}',
        '"\U0001f600" x',
        '{"a":"\u00e9\t"}',
        '["\\ud83d\\ude00", x]',
        "\ufeff{}",
        "\ufeff",
    ]
    + ["/* c */ {}", "{} // c", '{"a":1}\x00', '{"query":"a"}x', '{"query":"a"}\n', '\r\n\t {"query":"a"}', "undefined"]
    + [
        '{"a":-}',
        '{"a":tru}',
        '{"a":[1,{"b":]}',
        '{"a":"b"',
        '{"a":"b}',
        '{"query":"a","limit":5,}',
        "[" * 100 + "]" * 100,
    ]
    + ["[" * 100000, '{"a":' * 100000, "[" * 50, '{"a":' * 50]
)
WHOLE = [
    '{"limit":0,"graph":9,"query":4,"neighbor_limit":21,"modality":4,"prefer_replacements":"x"}',
    '{"prefer_replacements":null,"modality":[],"neighbor_limit":-1,"graph":{},"limit":51,"QUERY":"a"}',
    '{"query":1,"query":"b","limit":0}',
    '{"a":1,"b":2,"a":{"c":[3]},"limit":2.5}',
    '{"query":"a","query":null}',
    '{"query":"a","unknown":NaN,"__proto__":1,"":2}',
    '{"_sa_x":1,"b":[{"_sa":1,"c":1e16}],"_s":2}',
    '{"a":1e22,"b":1e-5,"c":0.0001,"d":1e15,"e":123456789.125,"f":-0.0,'
    '"g":1E400,"h":5e-324,"i":1.7976931348623157e308}',
    '{"a":9007199254740993.0,"b":0.1,"c":1e23,"d":-1.5e-7,"e":123e-2,'
    '"f":100000000000000000000.0,"g":-0,"h":9999999999999998.0}',
    '{"a":700867944314236.25,"b":-807725475763815.25,"c":910365977326861.25,"d":5e15,'
    '"e":9007199254740992.0,"f":2.5e-5}',
    '{"g":"\\u0001\\u001f\\u007f\\u2028\\"\\\\\\/\\b\\f\\n\\r\\t\u00e9"}',
    '{"a":"\\ud800","\\udfff":[{"b":NaN}],"c":-Infinity}',
    '{"query":"\\ud83d\\ude00 \\u00e9 \u4e16"}',
    '{"query":"","limit":"50","graph":"on","neighbor_limit":"0","modality":"","prefer_replacements":1}',
    '{"query":"q","modality":null,"limit":1,"neighbor_limit":20}',
    '{"Query":"a","query ":"b"}',
    '{"query":{"a":[1,2.0,"x",null,true,false,{}]},"limit":[[]]}',
]
DIGITS = ["1" * 4300, "1" * 4301, "-" + "1" * 4300, "-" + "1" * 4301]
BYTES = [
    b"\xff",
    b'{"query":"\xff"}',
    b'{"query":"a"}\xc3',
    b"\xed\xa0\x80",
    b'{"query":"\xed\xa0\x80"}',
    b'{"a":"\xed\xa0\xbd\xed\xb8\x80"}',
    b'"\xc0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xed\xa0"',
    b'{"a":"\\ud83d\xed\xb8\x80"}',
    b"\xef\xbb\xbf",
    b"\xef\xbb\xbf x",
    b"\xef\xbb",
    b"{\0",
    b"\0{",
    b"{\0}",
    b"\0",
    b"\0\0",
    b"\0\0\0",
    b"\0\0\0\0",
    b"{\0\0\0",
    b"a\0\0b",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\xff\xfe\0\0",
    b"\0\0\xfe\xff",
    b"\xff\xfe{",
    b"\xff\xfe{\0}",
    b"\xff\xfe\0\xd8",
    b'\xff\xfe"\0\0\xd8"\0',
    b'\xff\xfe"\0=\xd8\0\xde"\0',
    b'"\0\0\xdc"\0',
    b'\0"\xd8\0\0"',
    b"\0\0\xfe\xff\0\x11\0\0",
    b'"\0\0\0\0\xd8\0\0"\0\0\0',
    b'\0\0\0"\0\x01\xf6\0\0\0\0"',
    b"{\0\0\0}\0\0",
    b"{\0}\0 ",
]
GOOD = '{"query":"caf\u00e9","limit":"7"}'
TYPES = [
    None,
    "",
    "application/json",
    "APPLICATION/JSON",
    "Application/Json; charset=utf-8",
    "application/json;",
    "application/json; charset=latin-1",
    "text/json",
    "text/plain",
    "json",
    "/json",
    "application/",
    "application",
    "application/json/x",
    " application/json ",
    "application /json",
    "application/ json",
    "application/json, text/plain",
    "application/json charset",
    "application/jsonx",
    "application/xjson",
    "application/+json",
    "application/x+json",
    "application/vnd.api+json; a=b",
    "application/json+x",
    "application/problem+JSON",
    ";application/json",
    "application/json\t;x",
    "text/plain;application/json",
    '"application/json"',
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "*/*",
    "application/*",
]


def literal(text):
    return json.dumps(text)


def random_value(rng, depth=0):
    roll = rng.randrange(10 if depth < 3 else 8)
    if roll < 2:
        return rng.choice(INTS[:52])
    if roll < 5:
        return literal(rng.choice(TEXTS))
    if roll < 6:
        return repr(rng.uniform(-1, 1) * 10.0 ** rng.randrange(-20, 25))
    if roll < 7:
        return str(rng.randrange(-3, 60))
    if roll < 8:
        return rng.choice(["true", "false", "null", "1", "0"])
    if roll < 9:
        return "[" + ",".join(random_value(rng, depth + 1) for _ in range(rng.randrange(3))) + "]"
    return random_object(rng, ["a", "b", "_sa_c", "\u00e9"], depth + 1)


def random_object(rng, names, depth=0):
    space = lambda: rng.choice(["", "", "", " ", "\n"])
    pairs = [
        space() + literal(rng.choice(names)) + space() + ":" + space() + random_value(rng, depth) + space()
        for _ in range(rng.randrange(6))
    ]
    return "{" + ",".join(pairs) + "}"


def spoilt(rng, body):
    """The body with one character removed, doubled, changed or everything after it cut."""
    at = rng.randrange(len(body))
    way = rng.randrange(4)
    if way == 0:
        return body[:at] + body[at + 1 :]
    if way == 1:
        return body[:at] + body[at] + body[at:]
    if way == 2:
        return body[:at] + rng.choice('{}[]":,\\ux0-.eE \u00e9\x01') + body[at + 1 :]
    return body[:at]


def cases():
    for value in INTS + [literal(text) for text in TEXTS]:
        yield "/recall", JSON, '{"query":"a","limit":%s}' % value
        yield "/recall", JSON, '{"query":"a","graph":%s}' % value
    for value in INTS[::3] + [literal(text) for text in TEXTS[::4]] + ["null", '"\\ud800"']:
        yield "/recall", JSON, '{"query":%s}' % value
        yield "/recall", JSON, '{"query":"a","modality":%s}' % value
        yield "/recall", JSON, '{"query":"a","neighbor_limit":%s,"prefer_replacements":%s}' % (value, value)
        yield "/semantic-recall", JSON, '{"query":"a","limit":%s,"graph":3}' % value
    for body in BROKEN + WHOLE + BYTES:
        yield "/recall", JSON, body
    for body in WHOLE:
        yield "/semantic-recall", JSON, body
    for digits in DIGITS:
        yield "/recall", JSON, '{"query":"a","limit":%s}' % digits
        yield "/recall", JSON, '{"query":"a","limit":"%s"}' % digits
    for text in [
        "1_" * 2200 + "1",
        "0" * 4300 + "5",
        "+" + "1" * 4301,
        "1" * 4301 + "x",
        "1" * 4301 + ".0",
        "x" * 4301,
    ]:
        yield "/recall", JSON, '{"query":"a","limit":"%s"}' % text
    for content_type in TYPES:
        yield "/recall", content_type, GOOD
        yield "/recall", content_type, ""
    for body in [b"\xff\xfe", b"a\xed\xa0\x80", b"\xe2\x82", b"\xf0\x9f\x98x\xc3", "null", "x", '\u00e9"\\\n\0']:
        yield "/semantic-recall", "text/plain", body
        yield "/semantic-recall", None, body
    rng = random.Random(SEED)
    for i in range(RANDOM_BODIES):
        body = random_object(rng, NAMES)
        yield rng.choice(["/recall", "/recall", "/semantic-recall"]), JSON, spoilt(rng, body) if i % 3 == 0 else body
