"""faiss alone: exact searches over the dump's vectors, in one process of one thread, as our worker speaks.

    scan.py DUMP KIND...

    {"nearest": {"kind": "fp16", "vectors": "vectors.f32", "first": 0, "count": 40, "limit": 10}}
        -> {"milliseconds": [40 numbers], "rows": [40 lists]}
"""
import json
import sys
import time
from pathlib import Path

import faiss
import numpy as np

from build import DIMENSIONS, index


def main() -> None:
    dump, kinds = Path(sys.argv[1]), sys.argv[2:]
    faiss.omp_set_num_threads(1)
    indexes = {kind: index(dump, kind) for kind in kinds}
    print(json.dumps({"ready": {"faiss": faiss.__version__}}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)["nearest"]
        queries = np.fromfile(wanted["vectors"], "<f4").reshape(-1, DIMENSIONS)
        searched, milliseconds, rows = indexes[wanted["kind"]], [], []
        for query in queries[wanted["first"]:wanted["first"] + wanted["count"]]:
            start = time.perf_counter()
            _, found = searched.search(query[None], wanted["limit"])
            milliseconds.append((time.perf_counter() - start) * 1e3)
            rows.append(found[0].tolist())
        print(json.dumps({"milliseconds": milliseconds, "rows": rows}), flush=True)


if __name__ == "__main__":
    main()
