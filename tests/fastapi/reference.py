"""The reference: FastAPI with the request models of the HTTP API, which gives back what it accepted.

FastAPI cannot render some of its own errors: a number that is not finite, a lone surrogate or bytes that are no UTF-8
in `input` end in a 500. For these the app answers what it would be with null for such a number and U+FFFD for what is
not text, and says so by the header `x-repaired`. A lone surrogate in `query` or `modality` is accepted by pydantic;
the app gives U+FFFD back for it, which is what a service does whose texts are Unicode.
"""

import math

from fastapi import FastAPI, Header
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field


class RecallRequest(BaseModel):
    query: str
    limit: int = Field(5, ge=1, le=50)
    graph: bool = False
    neighbor_limit: int = Field(3, ge=0, le=20)
    modality: str | None = None
    prefer_replacements: bool = False


class SemanticRecallRequest(BaseModel):
    query: str
    limit: int = Field(5, ge=1, le=50)


app = FastAPI()


@app.get("/health")
def health():
    return {}


@app.get("/stats")
def stats(authorization: str | None = Header(None)):
    return {}


@app.post("/recall")
def recall(body: RecallRequest, authorization: str | None = Header(None)):
    return plain(body.model_dump())


@app.post("/semantic-recall")
def semantic_recall(body: SemanticRecallRequest, authorization: str | None = Header(None)):
    return plain(body.model_dump())


def plain(value):
    """The value with what JSON cannot carry replaced."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items() if not k.startswith("_sa")}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


@app.exception_handler(RequestValidationError)
async def invalid(request, problem):
    """FastAPI's own handler, and what it should have said where it fails."""
    try:
        return await request_validation_exception_handler(request, problem)
    except ValueError:
        return JSONResponse({"detail": plain(problem.errors())}, status_code=422, headers={"x-repaired": "1"})
