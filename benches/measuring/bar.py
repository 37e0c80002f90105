"""A promise, and whether it is kept."""
from collections.abc import Iterable
from dataclasses import dataclass

from report import Report, table


@dataclass(frozen=True)
class Bar:
    """A value that is at most, or at least, some other."""

    what: str
    wanted: float
    value: float | None  # None: not measured in this run
    at_most: bool = False
    digits: int = 2
    remark: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        short = self.value - self.wanted if self.at_most else self.wanted - self.value
        return "PASS" if short <= 0 else f"missed by {short:.{self.digits}g}"

    def row(self) -> list[str]:
        value = "" if self.value is None else f"{self.value:.{self.digits + 2}g}"
        sign = "<=" if self.at_most else ">="
        return [self.what, f"{sign} {self.wanted}", value, f"**{self.verdict}**", self.remark]


def tell(report: Report, bars: Iterable[Bar], warning: str = "") -> None:
    """`warning` says why the verdicts are none, if they are none."""
    report.say("### The bars\n")
    if warning:
        report.say(f"{warning}\n")
    heads = ["bar", "wanted", "measured", "verdict", "remark"]
    report.say(table(heads, (bar.row() for bar in bars)))
