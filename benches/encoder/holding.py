"""Whether ONNX Runtime can be held to AVX2 on this machine, and the library that does it."""
import platform
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().with_name("hold_to_avx2.c")
WIDER = {"avx512f", "avx_vnni", "amx_tile"}


class Impossible(Exception):
    """Says why a peer cannot be held to AVX2 here."""


def flags() -> set[str]:
    """What the processor has, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    found = next((line for line in lines if line.startswith("flags")), "")
    return set(found.partition(":")[2].split())


def library(folder: Path) -> Path | None:
    """The library to preload; None where the processor has nothing wider than AVX2."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Impossible(f"needs Linux on x86-64, this is {platform.system()} on {platform.machine()}")
    if "avx2" not in flags():
        raise Impossible("this processor has no AVX2")
    if not WIDER & flags():
        return None
    built = folder / "hold_to_avx2.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-pthread", str(SOURCE), "-o", str(built)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Impossible("there is no C compiler (cc)") from None
    if done.returncode != 0:
        raise Impossible(f"the library did not compile: {done.stderr.strip()[-300:]}")
    return built
