"""Waiting for other people's work to end: on a busy machine a turn says little, and a peer of two
threads, whose threads wait for each other by spinning, suffers most."""
import time
from pathlib import Path

BUSY_MAX = 0.15  # share of all processors that may be busy
WINDOW_SECONDS = 0.05
PATIENCE_SECONDS = 2.0  # before one turn
PATIENCE_SECONDS_OF_ALL = 300.0  # before all turns of a run: a machine in constant use is not waited for


class Gate:
    """Lets a turn begin when the machine is quiet, or when patience is over; counts both."""

    def __init__(self, off: bool = False) -> None:
        self.off = off
        self.turns = 0
        self.loud = 0
        self.waited = 0.0

    def wait(self) -> None:
        if self.off:
            return
        self.turns += 1
        start = time.monotonic()
        end = start + min(PATIENCE_SECONDS, PATIENCE_SECONDS_OF_ALL - self.waited)
        while _busy_share() > BUSY_MAX:
            if time.monotonic() > end:
                self.loud += 1
                break
        self.waited += time.monotonic() - start - WINDOW_SECONDS


def _busy_share() -> float:
    """Of the processors' time in the next moment; 0 where nobody tells."""
    before = _ticks()
    time.sleep(WINDOW_SECONDS)
    after = _ticks()
    all_of_it = sum(after) - sum(before)
    idle = sum(after[3:5]) - sum(before[3:5])
    return 1 - idle / all_of_it if all_of_it else 0.0


def _ticks() -> list[int]:
    """user nice system idle iowait irq softirq steal, of all processors together."""
    try:
        first = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return [0] * 8
    return [int(ticks) for ticks in first.split()[1:9]]
