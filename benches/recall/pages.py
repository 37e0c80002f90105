"""How much of the files that a process has mapped lies in huge pages."""
from dataclasses import dataclass
from pathlib import Path

# Flag of a range for which the process wishes for huge pages (proc_pid_smaps(5)).
WISHED = "hg"


@dataclass(frozen=True)
class Huge:
    """MiB of the ranges for which huge pages are wished for, and what of that lies in such."""

    mapped: float
    huge: float

    @property
    def share(self) -> float:
        return self.huge / self.mapped if self.mapped else 0.0


def in_huge_pages(process: int, folder: Path) -> Huge:
    """Of files beneath a folder. What was not touched yet lies in no page of the process."""
    mapped, huge = 0, 0
    ours, of = False, {"Size": 0, "FilePmdMapped": 0}
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        head, *rest = line.split()
        if not head.endswith(":"):  # a range begins
            ours = line.partition("/")[2].startswith(f"{folder.resolve()}/"[1:])
            of = dict.fromkeys(of, 0)
        elif head[:-1] in of:
            of[head[:-1]] = int(rest[0])  # KiB
        elif head == "VmFlags:" and ours and WISHED in rest:
            mapped, huge = mapped + of["Size"], huge + of["FilePmdMapped"]
    return Huge(mapped / 1024, huge / 1024)
