#!/usr/bin/env python3
"""judge.py TOOLS_JSON REQUESTS_TSV [--wrong]

Top-1 and top-3 accuracy of BM25 over a tool list, for requests labelled `request<TAB>tool[|tool...]`.
A tool's text: its name (without the suffix `tool`) and title, both twice; its description; the names and
descriptions of its arguments, nested ones too. Any tool of a label counts as right. Ties go to the earlier
tool of the list; a tool that shares no word with the request is never a hit.
"""
import json
import math
import re
import sys
from collections import Counter

K1, B = 1.2, 0.75
STOP = set("a an the of to in on at for and or is are was be it its this that with by as from i we me".split()
           + "you my our do".split())
assert len(STOP) == 30


def stem(w):
    n = len(w)
    if n > 4 and w.endswith("ies"):
        w = w[:-3] + "y"
    elif n > 4 and re.search(r"(ss|x|ch|sh)es$", w):
        w = w[:-2]
    elif n > 3 and w.endswith("s") and not re.search(r"(ss|us|is)$", w):
        w = w[:-1]
    for suffix in ("ing", "ed"):
        base = w[:-len(suffix)]
        if w.endswith(suffix) and len(base) >= 3 and re.search(r"[aeiouy]", base) and not w.endswith("eed"):
            w = base
            if re.search(r"([bdgmnprt])\1$", w):
                w = w[:-1]
            break
    if len(w) > 3 and w.endswith("e"):
        w = w[:-1]
    if len(w) > 2 and w.endswith("y"):
        w = w[:-1] + "i"
    return w


def words(text):
    return [stem(w) for w in re.findall(r"[a-z0-9]+", text.lower()) if w not in STOP]


def arguments(schema):
    out = []
    if isinstance(schema, dict):
        for name, sub in (schema.get("properties") or {}).items():
            out.append(name)
            if isinstance(sub, dict):
                out.append(sub.get("description") or "")
                out += arguments(sub)
        if "items" in schema:
            out += arguments(schema["items"])
        for key in ("anyOf", "oneOf", "allOf"):
            for sub in schema.get(key) or []:
                out += arguments(sub)
    return out


def text_of(tool):
    name = re.sub(r"_tool$", "", tool["name"])
    title = tool.get("title") or (tool.get("annotations") or {}).get("title") or ""
    return " ".join([name, title] * 2 + [tool.get("description") or ""] + arguments(tool.get("inputSchema")))


def main():
    args = [a for a in sys.argv[1:] if a != "--wrong"]
    if len(args) != 2:
        sys.exit(__doc__)
    with open(args[0], encoding="utf-8") as f:
        tools = json.load(f)
    if isinstance(tools, dict):
        tools = tools["tools"] if "tools" in tools else tools["result"]["tools"]
    names = [t["name"] for t in tools]
    docs = [Counter(words(text_of(t))) for t in tools]
    sizes = [sum(d.values()) for d in docs]
    mean = sum(sizes) / len(sizes)
    df = Counter(w for d in docs for w in d)

    def rank(request):
        query = set(words(request))
        rows = []
        for i, d in enumerate(docs):
            s = 0.0
            for w in sorted(query):
                if w in d:
                    idf = math.log(1 + (len(docs) - df[w] + 0.5) / (df[w] + 0.5))
                    s += idf * d[w] * (K1 + 1) / (d[w] + K1 * (1 - B + B * sizes[i] / mean))
            if s > 0:
                rows.append((-s, i))
        return [(names[i], -s) for s, i in sorted(rows)]

    n = top1 = top3 = 0
    wrong = []
    with open(args[1], encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if not line:
                continue
            request, label = line.split("\t")
            right = label.split("|")
            for r in right:
                if r not in names:
                    print(f"line {number}: no tool {r} in the list", file=sys.stderr)
            ranked = rank(request)
            place = next((p for p, (name, _) in enumerate(ranked, 1) if name in right), None)
            n += 1
            top1 += place == 1
            top3 += place is not None and place <= 3
            if place != 1:
                wrong.append((number, place, request, label, ranked[:3]))
    size = len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())
    print(f"requests {n}  tools {len(tools)}")
    print(f"top-1 {top1}/{n} {100 * top1 / n:.1f}%")
    print(f"top-3 {top3}/{n} {100 * top3 / n:.1f}%")
    print(f"bytes {size}")
    if "--wrong" in sys.argv[1:]:
        for number, place, request, label, got in wrong:
            print(f"\n{number}: {request}\n  want {label} (place {place or 'none'})")
            print("  got  " + ", ".join(f"{name} {s:.2f}" for name, s in got))


if __name__ == "__main__":
    main()
