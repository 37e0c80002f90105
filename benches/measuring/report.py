"""What was found: Markdown for people, CSV lines for the records. Knows nothing of measuring."""
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CSV_HEAD = "bench,case,engine,value,unit,runs,cpu,cores,memory_gib,kernel,filesystem"
TELLING = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_tile")


def shown(value: float) -> str:
    """Three digits that say something."""
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{places}f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _field(file: str, name: str) -> str:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def flags() -> set[str]:
    """What the processor has, as Linux names it."""
    return set(_field("/proc/cpuinfo", "flags").split())


def load() -> str:
    """The load averages of the last 1, 5 and 15 minutes."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


@dataclass
class Report:
    """All figures of one run; Markdown is printed as it comes, CSV at the end."""

    figures: list[tuple[str, str, str, str, str, int]] = field(default_factory=list)
    load_at_start: str = field(default_factory=load)

    def add(self, bench: str, case: str, engine: str, value: str, unit: str, runs: int) -> None:
        self.figures.append((bench, case, engine, value, unit, runs))

    def say(self, markdown: str = "") -> None:
        print(markdown, flush=True)

    def machine(self, packages: Sequence[str]) -> None:
        """What it was measured on, and with which packages of Python."""
        memory = int(_field("/proc/meminfo", "MemTotal").removesuffix(" kB") or 0)
        cpu = _field("/proc/cpuinfo", "model name").replace(",", " ") or platform.processor()
        has = " ".join(name for name in TELLING if name in flags())
        versions = [f"{name} {_version(name)}" for name in packages]
        self.say(f"Machine: {cpu} ({has}), {os.cpu_count()} cores, {-(-memory // (1 << 20))} GiB, "
                 f"Linux {platform.release()}. Load average (1, 5, 15 minutes) at the start: "
                 f"{self.load_at_start}, at the end: {load()}. Python {platform.python_version()}, "
                 f"{', '.join(v for v in versions if not v.endswith(' '))}.\n")
        tail = f"{cpu},{os.cpu_count()},{-(-memory // (1 << 20))},{platform.release()},-"
        self.say(CSV_HEAD)
        for bench, case, engine, value, unit, runs in self.figures:
            self.say(f'{bench},"{case}",{engine},{value},{unit},{runs},{tail}')


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
