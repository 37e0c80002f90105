"""One peer in a process of its own: JSON lines in, JSON lines out, as our worker speaks.

    peer.py onnxruntime GRAPH --threads N [--held LIBRARY]
    peer.py openvino GRAPH --threads N

Requests differ from our worker's in one thing: they carry token ids instead of texts.
"""
import argparse
import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

WARM_UP = 2
READ_BYTES = 120_000 * 384 * 2  # what a scan of 120,000 rows of 384 halves reads
# Leaf 7: register (EBX is 1), bit; by the names that Linux has for them.
FEATURES = {"avx2": (1, 5), "avx512f": (1, 16), "avx512_vnni": (2, 11), "amx_tile": (3, 24)}

Feed = dict[str, np.ndarray]
Run = Callable[[Feed], np.ndarray]


def fed(ids: list[list[int]]) -> Feed:
    """Texts of the same length; nothing is padding."""
    rows = np.array(ids, np.int64)
    return {"input_ids": rows, "attention_mask": np.ones_like(rows)}


def onnxruntime(graph: str, threads: int) -> Run:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(graph, options, ["CPUExecutionProvider"])
    return lambda feed: session.run(None, feed)[0]


def openvino(graph: str, threads: int) -> Run:
    import openvino as runtime

    core = runtime.Core()
    settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32",
                "INFERENCE_NUM_THREADS": threads}
    request = core.compile_model(core.read_model(graph), "CPU", settings).create_infer_request()
    return lambda feed: next(iter(request.infer(feed).values()))


class Reader:
    """Reads as much as a scan does, with as many threads as the peer has."""

    def __init__(self, threads: int) -> None:
        self.parts: list[np.ndarray] = []
        self.threads = threads
        self.pool = ThreadPoolExecutor(max_workers=threads)

    def read(self) -> None:
        if not self.parts:
            self.parts = np.array_split(np.arange(READ_BYTES // 8, dtype=np.uint64), self.threads)
        list(self.pool.map(np.sum, self.parts))


def timed(run: Run, reader: Reader, request: dict) -> dict:
    feed = fed(request["ids"])
    milliseconds = []
    for call in range(WARM_UP + request["calls"]):
        if request.get("read_between"):
            reader.read()
        start = time.perf_counter()
        run(feed)
        end = time.perf_counter()
        if call >= WARM_UP:
            milliseconds.append((end - start) * 1e3)
    return {"milliseconds": milliseconds, "tokens": [len(row) for row in feed["input_ids"]]}


def embedded(run: Run, request: dict) -> dict:
    """One text at a time: no padding, nothing of a neighbour's in its quantisation."""
    texts = json.loads(Path(request["ids"]).read_text())
    start = time.perf_counter()
    vectors = np.stack([run(fed([ids]))[0] for ids in texts])
    seconds = time.perf_counter() - start
    vectors.astype("<f4").tofile(request["vectors"])
    return {"texts": len(texts), "seconds": seconds}


def held(library: str) -> dict:
    """What cpuid says in this process, which was started with the library preloaded."""
    asked = ctypes.CDLL(library)
    if asked.held_failure() != 0:
        reason = os.strerror(asked.held_failure())
        raise RuntimeError(f"cpuid cannot be made to fault on this machine: {reason}")
    registers = (ctypes.c_uint32 * 4)()

    def has() -> dict[str, bool]:
        return {name: bool(registers[of] >> bit & 1) for name, (of, bit) in FEATURES.items()}

    asked.held_ask(7, 0, registers)
    own = has()
    if asked.held_ask_in_thread(registers) != 0:
        raise RuntimeError("no thread could be started")
    return {"own": own, "in_thread": has(), "answered": asked.held_answered()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runtime", choices=("onnxruntime", "openvino"))
    parser.add_argument("graph")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--held")
    arguments = parser.parse_args()
    try:
        run = {"onnxruntime": onnxruntime, "openvino": openvino}[arguments.runtime](
            arguments.graph, arguments.threads)
        run(fed([[101, 102]]))
        ready = {"threads": arguments.threads}
        if arguments.held:
            ready["held"] = held(arguments.held)
    except Exception as error:  # whatever a peer's runtime raises, the driver shows it
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(1)
    print(json.dumps({"ready": ready}), flush=True)
    reader = Reader(arguments.threads)
    for line in sys.stdin:
        request = json.loads(line)
        if "time" in request:
            answer = timed(run, reader, request["time"])
        else:
            answer = embedded(run, request["embed"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
