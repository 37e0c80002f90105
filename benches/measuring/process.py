"""A process that is measured: a JSON line in, a JSON line out. Its first line is `{"ready": ...}`."""
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

CLOSE_SECONDS = 5.0
# Libraries that would start threads of their own.
THREADS_OF_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerError(Exception):
    """A process did not start or ended; says why."""


class Process:
    """One process, pinned to as many CPUs as it has threads."""

    def __init__(self, name: str, command: Sequence[str], threads: int, log: Path,
                 more: Mapping[str, str] | None = None) -> None:
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        environment = dict(os.environ) | {name: str(threads) for name in THREADS_OF_LIBRARIES}
        self.name, self.log = name, log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, env=environment | dict(more or {}), text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=file,
                preexec_fn=lambda: os.sched_setaffinity(0, cpus))
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
            raise WorkerError(f"{self.name} ended; its last words are in {self.log}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:  # in the middle of something nobody waits for
            self.process.kill()
            self.process.wait()
