"""Measures the encoder beside its peers; `run` installs what it needs and starts it."""
import argparse
import signal
import sys
from pathlib import Path

import bar
import bars
import faithful
import graphs
import holding
import scifact
import speed
import texts
from process import WorkerError
from report import Report, flags
from workers import Place, Side, start

ROUNDS, QUICK_ROUNDS = 7, 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description="Measures the encoder beside ONNX Runtime.")
    parser.add_argument("--folder", type=Path, default=Path(),
                        help="where peers and graphs are kept (default: target/encoder-peers)")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="shows that everything works")
    parser.add_argument("--only", choices=("speed", "faithful", "scifact"))
    parser.add_argument("--rounds", type=int, help=f"rounds of timing (default: {ROUNDS})")
    parser.add_argument("--level", help="our level (default: the best; for faithfulness, each)")
    parser.add_argument("--precision", action="append", help="our precision (default: each)")
    parser.add_argument("--model", type=Path, help="a model directory (default: the server's model)")
    parser.add_argument("--scifact", type=Path, metavar="DIR", help="SciFact in BEIR's layout")
    parser.add_argument("--more-peers", action="store_true",
                        help="OpenVINO as well, and ONNX Runtime f32 on SciFact")
    found = parser.parse_args()
    if found.only == "scifact" and not found.scifact:
        parser.error("--only scifact needs --scifact DIR")
    if found.rounds is not None and not 1 <= found.rounds <= 1000:
        parser.error("--rounds is from 1 to 1000")
    return found


def main() -> None:
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run: ended from outside"))
    report = Report()
    try:
        promises = Run(asked, report).all()
    except (WorkerError, OSError) as error:
        raise SystemExit(f"run: {error}") from None
    if promises:
        quick = "A quick run: too few rounds, sentences and documents for a verdict."
        bar.tell(report, promises, quick if asked.quick else "")
    report.machine(("onnxruntime", "numpy", "openvino"))


class Run:
    """One run: what was asked for, and what our worker says it can do."""

    def __init__(self, asked: argparse.Namespace, report: Report) -> None:
        self.asked, self.report = asked, report
        asked.folder.mkdir(parents=True, exist_ok=True)
        (asked.folder / "worker.log").unlink(missing_ok=True)
        place = Place(asked.folder, asked.worker, asked.model)
        probe = start(Side("ours", "f32", asked.level or "best", 1), place)
        probe.close()
        self.ready = probe.ready
        unknown = set(asked.precision or []) - set(self.ready["precisions"])
        if unknown:
            raise WorkerError(f"--precision {', '.join(sorted(unknown))}: there are "
                              f"{', '.join(self.ready['precisions'])}")
        self.precisions = asked.precision or self.ready["precisions"]
        self.place = Place(asked.folder, asked.worker, Path(self.ready["model"]))
        self.model = texts.tokenizer(self.place.model, self.ready["tokens_max"])
        graphs.build(self.place.model, asked.folder)

    def all(self) -> list[bar.Bar]:
        found: list[bar.Bar] = []
        if self.asked.only in (None, "faithful"):
            found += self.faithful()
        if self.asked.only in (None, "speed"):
            found += self.speed()
        if self.asked.scifact and self.asked.only in (None, "scifact"):
            found += self.scifact()
        return found

    def faithful(self) -> list[bar.Bar]:
        levels = [self.asked.level] if self.asked.level else self.ready["levels"]
        found = faithful.measure(self.place, self.model, levels, self.precisions, self.asked.quick)
        faithful.tell(self.report, found, self.asked.quick)
        return list(bars.of_likeness(found))

    def speed(self) -> list[bar.Bar]:
        rounds = self.asked.rounds or (QUICK_ROUNDS if self.asked.quick else ROUNDS)
        sides = speed.sides_of(self.ready["level"], self.precisions, self.asked.more_peers, "")
        why = {}
        for level in holding.NEEDED:
            if level == self.ready["level"]:
                continue  # nobody has anything wider
            try:
                self.hold(level)
                sides += speed.sides_of(level, self.precisions, False, level)
            except holding.Impossible as error:
                why[level] = f"nobody was held to {level}: {error}"
                self.report.say(f"{why[level][0].upper()}{why[level][1:]}.\n")
        times = speed.measure(self.place, self.model, sides, rounds, self.asked.quick)
        speed.tell(self.report, times, rounds)
        return list(bars.of_times(times, why))

    def hold(self, level: str) -> None:
        """Finds out whether a peer can be held to a level, and shows that it is."""
        if level not in self.ready["levels"]:
            raise holding.Impossible("our build has no level of that name here")
        library = holding.library(self.asked.folder, level)
        self.place = Place(self.place.folder, self.place.worker, self.place.model, library)
        if library is None:
            self.report.say(f"This processor has nothing wider than {level}, so nobody need be held.\n")
            return
        try:
            peer = start(Side("ONNX Runtime", "f32", "plain", 2, held=level), self.place)
        except WorkerError as error:
            raise holding.Impossible(str(error)) from None
        said = peer.ready["held"]
        peer.close()
        told, hidden = said["in_thread"], holding.WIDER[level]
        if said["own"] != told or not told[holding.NEEDED[level]] or any(
                told[name] for name in hidden & told.keys()):
            raise holding.Impossible(f"cpuid still says {said}")
        has = " ".join(sorted(told.keys() & flags()))
        left = " ".join(sorted(name for name in told if told[name]))
        self.report.say(
            f"Held to {level}: this processor has {has}; a held process and a thread of its are told "
            f"{left} ({said['answered']} answers until it was ready).\n")

    def scifact(self) -> list[bar.Bar]:
        data = scifact.read(self.asked.scifact, self.asked.quick)
        sides = [Side("ours", precision, self.ready["level"], 2) for precision in self.precisions]
        if self.asked.more_peers:
            sides.append(Side("ONNX Runtime", "f32", "plain", 2))
        found = scifact.measure(self.place, self.model, data, sides)
        scifact.tell(self.report, found, data, self.asked.quick)
        return [] if self.asked.quick else list(bars.of_scifact(found))


if __name__ == "__main__":
    main()
