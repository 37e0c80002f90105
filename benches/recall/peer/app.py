"""The peer: the same HTTP API as one would write it in Python, and fast: FastAPI on uvicorn (uvloop,
httptools), ONNX Runtime, faiss, SQLite FTS5.

    uvicorn app:app       with PEER_DATA (what `build.py` made), PEER_GRAPH (.onnx), PEER_TOKENIZER,
                          PEER_WORKERS (questions worked on at once), PEER_THREADS (for each of them),
                          PEER_KEYS (gateway id, gateway secret and bearer, by commas)

Work runs in a pool of as many threads as questions are worked on at once: left to a large pool, many
clients have more threads than cores, and all of them wait. Validation is pydantic's, answers are written
by orjson without a model of their own.
"""
import asyncio
import hmac
import os
import re
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import faiss
import numpy as np
import onnxruntime
import orjson
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field
from tokenizers import Tokenizer

DATA = Path(os.environ["PEER_DATA"])
WORKERS, THREADS = int(os.environ["PEER_WORKERS"]), int(os.environ["PEER_THREADS"])
KEYS = [key.encode() for key in os.environ["PEER_KEYS"].split(",")]
TOKENS_MAX = 256
MAP_BYTES = 2 << 30
WORD = re.compile(r"\w+")
COLUMNS = ("row, id, kind, title, text, modality, tags, status, superseded_by, recorded_at, recorded_by, via, "
           "valid_from, valid_to, sensitivity, content_sha256")

local = threading.local()


class Recall(BaseModel):
    """The body of POST /recall."""

    query: str
    limit: int = Field(5, ge=1, le=50)
    graph: bool = False
    neighbor_limit: int = Field(3, ge=0, le=20)
    modality: str | None = None
    prefer_replacements: bool = False


class SemanticRecall(BaseModel):
    """The body of POST /semantic-recall."""

    query: str
    limit: int = Field(5, ge=1, le=50)


class Meaning:
    """Question to nearest rows."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer.from_file(os.environ["PEER_TOKENIZER"])
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(TOKENS_MAX)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            os.environ["PEER_GRAPH"], options, ["CPUExecutionProvider"])
        self.index = faiss.read_index(str(DATA / "vectors.faiss"))

    def nearest(self, query: str, limit: int) -> list[tuple[int, float]]:
        ids = np.array([self.tokenizer.encode(query).ids], np.int64)
        vector = self.session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
        scores, rows = self.index.search(vector, limit)
        return [(row, round(score, 6)) for row, score in zip(rows[0].tolist(), scores[0].tolist()) if row >= 0]


def begin_thread() -> None:
    """OpenMP's number of threads is each thread's own."""
    faiss.omp_set_num_threads(THREADS)
    local.db = sqlite3.connect(f"file:{DATA / 'memory.db'}?mode=ro&immutable=1", uri=True)
    local.db.execute(f"pragma mmap_size = {MAP_BYTES}")


def shown(found: list[tuple[int, float]]) -> list[dict]:
    """Rows as items, in their order."""
    marks = ",".join("?" * len(found))
    rows = local.db.execute(f"select {COLUMNS} from item where row in ({marks})", [row for row, _ in found])
    items = {row[0]: item(row) for row in rows}
    return [items[row] | {"score": score} for row, score in found]


def item(row: tuple) -> dict:
    (_, name, kind, title, text, modality, tags, status, superseded_by, recorded_at, by, via, valid_from,
     valid_to, sensitivity, content_sha256) = row
    supersedes = [one for one, in local.db.execute("select id from item where superseded_by = ?", (name,))]
    return {
        "id": name, "kind": kind, "title": title, "text": text, "modality": modality,
        "tags": orjson.loads(tags), "status": status, "superseded_by": superseded_by,
        "supersedes": supersedes, "source": None,
        "provenance": {"recorded_at": recorded_at, "by": by, "via": via, "span": None},
        "validity": {"from": valid_from, "to": valid_to},
        "policy": {"sensitivity": sensitivity, "gates": []}, "content_sha256": content_sha256,
    }


def semantic_answer(wanted: SemanticRecall) -> dict:
    began = time.perf_counter()
    results = shown(app.state.meaning.nearest(wanted.query, wanted.limit))
    return {"query": wanted.query, "model": "all-MiniLM-L6-v2", "dimensions": 384, "count": len(results),
            "took_ms": round((time.perf_counter() - began) * 1e3, 3), "results": results}


def recall_answer(wanted: Recall) -> list[dict]:
    words = " OR ".join(f'"{word}"' for word in WORD.findall(wanted.query))
    if not words:
        return []
    ranked = "select rowid, bm25(words, 2.0, 1.0) from words where words match ? order by rank limit ?"
    if wanted.modality is not None:
        ranked = ranked.replace("match ?", "match ? and rowid in (select row from item where modality = ?)")
    given = [words, wanted.modality, wanted.limit] if wanted.modality is not None else [words, wanted.limit]
    found = [(row, -score) for row, score in local.db.execute(ranked, given)]
    seeds = shown(found)
    if wanted.graph:
        taken = {row for row, _ in found}
        for seed, (row, _) in zip(seeds, found):
            seed["neighbors"] = neighbours(row, taken, wanted.neighbor_limit)
    return seeds


def neighbours(row: int, taken: set[int], limit: int) -> list[dict]:
    """The strongest edges either way."""
    edges = local.db.execute(
        "select id, relation, 'out', weight, target from edge where source = :row union all "
        "select id, relation, 'in', weight, source from edge where target = :row order by weight desc",
        {"row": row})
    found: dict[int, tuple] = {}
    for edge in edges:
        if len(found) == limit:
            break
        if edge[4] not in taken:
            found.setdefault(edge[4], edge)
    items = shown([(row, 0.0) for row in found])
    return [{"edge_id": edge, "relation": relation, "direction": direction, "weight": weight, "item": one}
            for (edge, relation, direction, weight, _), one in zip(found.values(), items)]


@asynccontextmanager
async def lifespan(app: FastAPI):
    app.state.pool = ThreadPoolExecutor(WORKERS, initializer=begin_thread)
    app.state.meaning = Meaning()
    yield
    app.state.pool.shutdown()


app = FastAPI(title="Memory recall", version="0.1.0", lifespan=lifespan)


async def answer(request: Request, work, wanted) -> Response:
    fields = request.headers
    given = (fields.get("x-gateway-client-id", ""), fields.get("x-gateway-client-secret", ""))
    if not all(hmac.compare_digest(one.encode(), key) for one, key in zip(given, KEYS)):
        raise HTTPException(403, "Gateway service token required")
    if not hmac.compare_digest(fields.get("authorization", "").encode(), b"Bearer " + KEYS[2]):
        raise HTTPException(401, "Not authenticated", {"WWW-Authenticate": "Bearer"})
    found = await asyncio.get_running_loop().run_in_executor(request.app.state.pool, work, wanted)
    return Response(orjson.dumps(found), media_type="application/json")


@app.get("/health")
async def health() -> dict:
    return {"status": "ok"}


@app.post("/recall")
async def recall(request: Request, wanted: Recall) -> Response:
    return await answer(request, recall_answer, wanted)


@app.post("/semantic-recall")
async def semantic_recall(request: Request, wanted: SemanticRecall) -> Response:
    return await answer(request, semantic_answer, wanted)
