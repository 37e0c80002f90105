"""Asks FastAPI what it answers to good and bad bodies, and writes the answers to cases.jsonl beside this file.

    python -m venv V && V/bin/pip install -r tests/fastapi/requirements.txt && V/bin/python tests/golden/fastapi/make.py

Written with the versions named there on Python 3.11 (later Pythons word some JSON errors
in another way). Each line: path, content_type (null: none sent), body (text) or base64, status, response; `repaired`
where tests/fastapi/reference.py says that FastAPI cannot give its own answer.
"""

import asyncio
import base64
import json
import pathlib
import sys

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fastapi"))

from bodies import cases  # noqa: E402
from reference import app  # noqa: E402


async def main():
    lines, seen = [], set()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://golden") as client:
        for path, content_type, body in cases():
            raw = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
            if (path, content_type, raw) in seen:
                continue
            seen.add((path, content_type, raw))
            headers = {} if content_type is None else {"content-type": content_type}
            answer = await client.post(path, content=raw, headers=headers)
            assert answer.status_code in (200, 400, 422), (raw, answer.status_code, answer.text)
            case = {"path": path, "content_type": content_type}
            if len(raw) > 20000:
                # Only these are long; a pattern keeps the file small.
                half = raw.decode()[: 1 if raw[:1] == b"[" else 5]
                case |= {"repeat": half, "times": len(raw) // len(half)}
            else:
                try:
                    case["body"] = raw.decode()
                except UnicodeDecodeError:
                    case["base64"] = base64.b64encode(raw).decode()
            case |= {"status": answer.status_code, "response": answer.text}
            if "x-repaired" in answer.headers:
                case["repaired"] = True
            lines.append(json.dumps(case, ensure_ascii=True, separators=(",", ":")))
    out = pathlib.Path(__file__).with_name("cases.jsonl")
    out.write_text("\n".join(lines) + "\n", encoding="ascii")
    print(len(lines), "cases,", out.stat().st_size, "bytes")


asyncio.run(main())
