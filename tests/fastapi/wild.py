"""Requests that nobody thought of, from a seed: JSON of every kind, broken in every way, under odd content types.

One call of `request` gives a path, header fields and a body; the same seed gives the same ones.
"""

import json

from bodies import BROKEN, BYTES, FIELDS, INTS, NAMES, TEXTS, TYPES, WHOLE, random_object, spoilt

SPACES = ["", "", "", " ", "\t", "\n", "\r\n", "  "]
LETTERS = "aZ0 _-.,:{}[]\"\\/'\u00e9\u212b\u017f\u4e16\U0001f600\u0000\u001f\u007f\u0085\u00a0\u2028\ufeff\ufffd\ud800\udfff"
NUMBER_LETTERS = "0123456789" * 3 + "+-..eE__ \u00a0\u0665x"
# Python stops near its recursion limit of 1000, of which the framework has used a part; ours at 900.
DEPTHS = [1, 2, 3, 5, 10, 30, 100, 150]
FIELD_SETS = [[name] for name in TYPES if name is not None]
FIELD_SETS += [[], [], ["application/json", "text/plain"], ["text/plain", "application/json"]]
FIELD_SETS += [["application/json; charset=utf-16"], ["application/json; charset=\u00e9"], ["application/\u00e9+json"]]
FIELD_SETS += [['application/json; a="b;c"'], ["application/json\u00a0"], ["APPLICATION/VND.X+JSON;a"], ["multipart/form-data"]]
FIELD_SETS += [["application/vnd.x+json"], ["application/vnd.x+json; charset=utf-8"], ["application/json+json"], ["a/b/c+json"]]
ENCODINGS = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig", "latin-1", "utf-7"]


def request(rng):
    path = rng.choice(["/recall", "/recall", "/semantic-recall"])
    kinds = ["application/json"] if rng.random() < 0.85 else rng.choice(FIELD_SETS)
    return path, kinds, body(rng)


def body(rng):
    way = rng.random()
    if way < 0.35:
        text = model(rng)
    elif way < 0.5:
        text = random_object(rng, NAMES)
    elif way < 0.6:
        text = value(rng)
    elif way < 0.65:
        text = rng.choice(BROKEN + WHOLE)
    elif way < 0.67:
        return rng.choice(BYTES)
    elif way < 0.7:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(12)))
    else:
        text = spoilt(rng, model(rng))
    for _ in range(rng.choice([0, 0, 0, 0, 1, 2, 5])):
        text = spoilt(rng, text) if text else text
    text = rng.choice(SPACES) + text + rng.choice(SPACES)
    if rng.random() < 0.06:
        return text.encode(rng.choice(ENCODINGS), "replace")
    raw = text.encode("utf-8", "surrogatepass")
    if raw and rng.random() < 0.06:
        at = rng.randrange(len(raw))
        raw = raw[:at] + bytes([rng.randrange(256)]) + raw[at + rng.randrange(2) :]
    return raw


def model(rng):
    """An object with the fields of the models, mostly near what is right."""
    names = [name for name in FIELDS if rng.random() < 0.6]
    if rng.random() < 0.85 and "query" not in names:
        names.append("query")
    rng.shuffle(names)
    names += rng.choices(FIELDS + ["Query", "limit ", "__class__", "_sa_x", "", "\ud800"], k=rng.choice([0, 0, 0, 1, 2]))
    pairs = [space(rng) + key(rng, name) + space(rng) + ":" + space(rng) + near(rng, name) + space(rng) for name in names]
    return "{" + ",".join(pairs) + "}"


def near(rng, name):
    """A value for a field: right, on its edge, of a neighbouring type, or anything."""
    way = rng.random()
    if way < 0.35:
        if name == "query":
            return literal(rng, text(rng))
        if "limit" in name:
            return str(rng.choice([0, 1, 5, 20, 21, 49, 50, 51, -1, rng.randrange(-5, 70)]))
        return rng.choice(["true", "false", "null", "0", "1", '"text"', '"yes"', '"OFF"'])
    if way < 0.55:
        return number(rng)
    if way < 0.75:
        return literal(rng, "".join(rng.choice(NUMBER_LETTERS) for _ in range(rng.randrange(1, 8))))
    if way < 0.85:
        return literal(rng, rng.choice(TEXTS))
    return value(rng)


def number(rng):
    way = rng.randrange(7)
    if way == 0:
        return rng.choice(INTS)
    if way == 1:
        return str(rng.choice([-1, 1]) * rng.randrange(10 ** rng.randrange(1, 40)))
    if way == 2:
        return repr(float(rng.randrange(-3, 60)))
    if way == 3:
        return repr(rng.uniform(-10, 10) * 10.0 ** rng.randrange(-320, 308))
    if way == 4:
        return f"{rng.randrange(1, 60)}e{rng.randrange(-3, 4)}"
    if way == 5:
        return f"{rng.randrange(60)}.{rng.choice(['0', '00', '5', '000000000000000000001', '9' * 20])}"
    near_ends = rng.choice([2**31, 2**32, 2**53, 2**63, 2**64]) + rng.randrange(-2, 3)
    return rng.choice(["", "-"]) + str(near_ends) + rng.choice(["", "", ".0", "e0"])


def text(rng):
    return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(8)))


def literal(rng, string):
    """A JSON string with that text, escaped as much as chance wants."""
    way = rng.randrange(4)
    if way == 0:
        return json.dumps(string)
    if way == 1:
        return json.dumps(string, ensure_ascii=False)
    out = ""
    for letter in string:
        code = ord(letter)
        if code > 0xFFFF or rng.random() < 0.5:
            out += json.dumps(letter)[1:-1]
        else:
            out += rng.choice(["\\u%04x", "\\u%04X"]) % code
    return f'"{out}"'


def key(rng, name):
    return json.dumps(name) if rng.random() < 0.9 else literal(rng, name)


def space(rng):
    return rng.choice(SPACES)


def value(rng, depth=0):
    way = rng.random()
    if way < 0.03 and depth == 0:
        deep = rng.choice(DEPTHS)
        opening, closing = rng.choice([("[", "]"), ('{"a":', "}"), ('{"a":[', "]}")])
        return opening * deep + rng.choice(["", "1", "NaN", "x"]) * (opening != '{"a":') + (closing * deep)
    if way < 0.3 or depth > 4:
        return number(rng)
    if way < 0.55:
        return literal(rng, text(rng) if rng.random() < 0.5 else rng.choice(TEXTS))
    if way < 0.7:
        return rng.choice(["true", "false", "null", "NaN", "Infinity", "-Infinity"])
    inner = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if way < 0.85:
        return "[" + space(rng) + ",".join(inner) + space(rng) + "]"
    names = [literal(rng, rng.choice(["a", "b", "_sa_c", "query", text(rng)])) for _ in inner]
    return "{" + ",".join(f"{name}:{one}" for name, one in zip(names, inner)) + "}"
