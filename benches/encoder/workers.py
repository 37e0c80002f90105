"""Processes that are measured: ours and the peers."""
import sys
from dataclasses import dataclass
from pathlib import Path

import graphs
from process import Process

HERE = Path(__file__).resolve().parent


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


class Worker(Process):
    """One process for a side."""

    def __init__(self, side: Side, command: list[str], folder: Path, preload: Path | None) -> None:
        self.side = side
        more = {"LD_PRELOAD": str(preload), "HOLD_TO": side.held} if preload else {}
        super().__init__(side.name, command, side.threads, folder / "worker.log", more)


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
