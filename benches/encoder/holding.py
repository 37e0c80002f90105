"""Whether ONNX Runtime can be held to a level on this machine, and the library that does it."""
import platform
import subprocess
from pathlib import Path

from report import flags

SOURCE = Path(__file__).resolve().with_name("hold.c")
# For each level: what a processor must have for it, and what is hidden, as Linux names them.
NEEDED = {"avx512": "avx512_vnni", "avx2": "avx2"}
WIDER = {"avx512": {"amx_tile"}, "avx2": {"avx512f", "avx_vnni", "amx_tile"}}


class Impossible(Exception):
    """Says why a peer cannot be held to a level here."""


def library(folder: Path, level: str) -> Path | None:
    """The library to preload; None where the processor has nothing wider than the level."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Impossible(f"needs Linux on x86-64, this is {platform.system()} on {platform.machine()}")
    if NEEDED[level] not in flags():
        raise Impossible(f"this processor has no {NEEDED[level]}")
    if not WIDER[level] & flags():
        return None
    built = folder / "hold.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-pthread", str(SOURCE), "-o", str(built)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Impossible("there is no C compiler (cc)") from None
    if done.returncode != 0:
        raise Impossible(f"the library did not compile: {done.stderr.strip()[-300:]}")
    return built
