"""Vectors of many texts from one side, by way of files."""
import json
import tempfile
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from workers import Place, Side, start


def embed(side: Side, place: Place, model: Tokenizer, found: list[str]) -> tuple[np.ndarray, float]:
    """One row of doubles per text, of unit length; and the seconds it took."""
    ours = side.who == "ours"
    worker = start(side, place)
    try:
        # A folder of its own: another run may be under way.
        with tempfile.TemporaryDirectory(dir=place.folder) as folder:
            texts, vectors = Path(folder, "texts.json"), Path(folder, "vectors.f32")
            given = found if ours else [model.encode(text).ids for text in found]
            texts.write_text(json.dumps(given))
            request = {"texts" if ours else "ids": str(texts), "vectors": str(vectors)}
            answer = worker.ask({"embed": request})
            rows = np.fromfile(vectors, "<f4").astype(np.float64).reshape(len(found), -1)
    finally:
        worker.close()
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), answer["seconds"]
