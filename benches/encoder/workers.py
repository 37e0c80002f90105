"""Processes that are measured: ours and the peers, each pinned to as many CPUs as it has threads."""
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import graphs

HERE = Path(__file__).resolve().parent
CLOSE_SECONDS = 5.0
# Libraries that would start threads of their own.
THREADS_OF_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerError(Exception):
    """A process did not start or ended; says why."""


@dataclass(frozen=True)
class Side:
    """Who computes, and how."""

    who: str  # "ours", "ONNX Runtime", "OpenVINO"
    precision: str
    form: str  # ours: the level; a peer: the graph
    threads: int
    held: str = ""  # to a level: ours by choosing it, a peer by what cpuid tells it

    @property
    def name(self) -> str:
        suffix = f" held to {self.held}" if self.held and self.who != "ours" else ""
        return f"{self.who} {self.precision} {self.form}{suffix}"


@dataclass(frozen=True)
class Place:
    """Where things are."""

    folder: Path
    worker: Path
    model: Path | None  # as given; None: the one that our worker finds
    holding: Path | None = None  # the library to preload; None: this machine has no use for it


class Worker:
    """One process: a JSON line in, a JSON line out."""

    def __init__(self, side: Side, command: list[str], folder: Path, preload: Path | None) -> None:
        cpus = sorted(os.sched_getaffinity(0))[:side.threads]
        environment = dict(os.environ) | {name: str(side.threads) for name in THREADS_OF_LIBRARIES}
        if preload:
            environment |= {"LD_PRELOAD": str(preload), "HOLD_TO": side.held}
        self.side = side
        self.log = folder / "worker.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.ready = self.read()["ready"]

    def ask(self, request: dict) -> dict:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def read(self) -> dict:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise WorkerError(f"{self.side.name} ended; its last words are in {self.log.name}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.side.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:  # in the middle of something nobody waits for
            self.process.kill()
            self.process.wait()


def start(side: Side, place: Place) -> Worker:
    """Starts a process for one side."""
    threads = ["--threads", str(side.threads)]
    if side.who == "ours":
        command = [str(place.worker), "--level", side.form, "--precision", side.precision, *threads]
        command += ["--model", str(place.model)] if place.model else []
        return Worker(side, command, place.folder, None)
    runtime = {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}[side.who]
    graph = graphs.path_of(place.folder, side.form, side.precision)
    command = [sys.executable, str(HERE / "peer.py"), runtime, str(graph), *threads]
    preload = place.holding if side.held else None
    command += ["--held", str(preload)] if preload else []
    return Worker(side, command, place.folder, preload)
