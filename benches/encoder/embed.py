"""Vectors of many texts from one side, by way of files."""
import json

import numpy as np
from tokenizers import Tokenizer

from workers import Place, Side, start


def embed(side: Side, place: Place, model: Tokenizer, found: list[str]) -> tuple[np.ndarray, float]:
    """One row of doubles per text, of unit length; and the seconds it took."""
    texts, vectors = place.folder / "texts.json", place.folder / "vectors.f32"
    ours = side.who == "ours"
    texts.write_text(json.dumps(found if ours else [model.encode(text).ids for text in found]))
    worker = start(side, place)
    try:
        request = {"texts" if ours else "ids": str(texts), "vectors": str(vectors)}
        answer = worker.ask({"embed": request})
    finally:
        worker.close()
    rows = np.fromfile(vectors, "<f4").astype(np.float64).reshape(len(found), -1)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), answer["seconds"]
