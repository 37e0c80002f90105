"""What embed.sh does: embed.py RECALLD DOCUMENTS [MODEL]."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# A kill may cost as much: `TEXTS_LOST_MAX` of server/embedding/src/inflow.rs.
LOST_MAX = 256
KILLS = 3
# Heap of the process at any time: the model with its buffers, the tail and what merges it, and what the import keeps of
# each line (format-spec/limits.md).
ANON_MIB_MAX = 512
# What the second half of the last run may need more than the first, at their most: `TAIL_BYTES_SEAL`. A tail is sealed about
# every 20,000 documents, so fewer than this say nothing.
GROWTH_MIB_MAX = 32
GROWTH_DOCUMENTS_MIN = 50_000
SAMPLE_SECONDS = 0.1
WORDS_MEAN, WORDS_DEVIATION, WORDS_MIN = 60, 18, 5
SEED = 4


def fail(why):
    sys.exit(f"FAILED: {why}")


def documents(file, count):
    """Lines to import, of words that this repository uses."""
    texts = [*Path("format-spec").glob("*.md"), Path("README.md"), Path("ARCHITECTURE.md")]
    words = re.findall(r"[A-Za-z][a-z]+", " ".join(text.read_text() for text in texts))
    dice = random.Random(SEED)
    with open(file, "w") as out:
        for number in range(count):
            length = max(WORDS_MIN, round(dice.gauss(WORDS_MEAN, WORDS_DEVIATION)))
            line = {"type": "item", "ref": f"document {number}", "title": f"Document {number}"}
            line["text"] = " ".join(dice.choices(words, k=length))
            out.write(json.dumps(line) + "\n")


class Run:
    """One import, killed once it has begun `texts` texts; to its end where none are given."""

    def __init__(self, importing, texts=None):
        self.begun = 0
        self.samples = []
        began, used = time.monotonic(), os.times()
        self.process = subprocess.Popen(
            importing,
            env=os.environ | {"RECALLD_TELL_EMBEDDING": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        sampling = threading.Thread(target=self.sample, daemon=True)
        sampling.start()
        said = []
        for line in self.process.stderr:
            step = re.fullmatch(r"recalld: embedding (\d+) texts\n", line)
            if not step:
                said.append(line)
                continue
            self.begun += int(step[1])
            if texts is not None and self.begun >= texts:
                self.process.send_signal(signal.SIGKILL)
        told = self.process.stdout.read()
        code = self.process.wait()
        sampling.join()
        self.seconds = time.monotonic() - began
        now = os.times()
        self.cpu = (now.children_user + now.children_system
                    - used.children_user - used.children_system)
        if code != (0 if texts is None else -signal.SIGKILL):
            fail(f"an import ended with {code}: {''.join(said)}{told}")
        self.report = json.loads(told) if texts is None else None

    def sample(self):
        while self.process.poll() is None:
            try:
                status = Path(f"/proc/{self.process.pid}/status").read_text()
            except OSError:
                return
            found = re.search(r"RssAnon:\s+(\d+) kB", status)
            if found:
                self.samples.append((self.begun, int(found[1]) / 1024))
            time.sleep(SAMPLE_SECONDS)


def memory(run, count):
    """Least and most from the first tenth on; fails where a bound is broken."""
    every = [mib for _, mib in run.samples]
    steady = [(begun, mib) for begun, mib in run.samples if begun >= run.begun / 10] or [(0, max(every))]
    least, most = min(mib for _, mib in steady), max(mib for _, mib in steady)
    print(f"RssAnon: {least:.0f} to {most:.0f} MiB from the first tenth on, "
          f"{max(every):.0f} MiB at most ({len(every)} samples)")
    if max(every) > ANON_MIB_MAX:
        fail(f"more than {ANON_MIB_MAX} MiB")
    if count < GROWTH_DOCUMENTS_MIN:
        print(f"growth: not judged below {GROWTH_DOCUMENTS_MIN} documents")
        return
    halves = [max(mib for begun, mib in steady if (begun >= run.begun * 0.55) == late)
              for late in (False, True)]
    print(f"growth: {halves[1] - halves[0]:+.0f} MiB from the first half to the second")
    if halves[1] - halves[0] > GROWTH_MIB_MAX:
        fail(f"more than {GROWTH_MIB_MAX} MiB")


def main(program, count, *model):
    # Of those that a kill leaves unembedded, each later one must find enough to be killed over.
    wanted = (KILLS + 1) * 3 * LOST_MAX // 2
    if count < wanted:
        fail(f"{count} documents are too few for {KILLS} kills: at least {wanted} are wanted")
    with tempfile.TemporaryDirectory(prefix="recalld-embed-") as scratch:
        data, file = Path(scratch, "data"), Path(scratch, "documents.jsonl")
        documents(file, count)
        importing = [program, "import", file, "--data", data, "--json"]
        importing += ["--model", *model] if model else []
        print(f"{count} documents, {file.stat().st_size / 1e6:.1f} MB")
        begun = 0
        for kill in range(1, KILLS + 1):
            run = Run(importing, texts=max(count // 10, 3 * LOST_MAX // 2))
            begun += run.begun
            print(f"kill {kill}: {run.begun} texts begun in {run.seconds:.1f} s")
        last = Run(importing)
        begun += last.begun
        report = last.report
        print(f"to the end: {report['embedded']} texts in {last.seconds:.1f} s, "
              f"{report['embedded'] / last.seconds:.0f} documents/s, {last.cpu / last.seconds:.2f} CPUs; "
              f"{report['unchanged']} documents were there")
        twice = begun - count
        print(f"embedded twice: {twice} texts of {KILLS} kills, at most {LOST_MAX} each are allowed")
        if twice > KILLS * LOST_MAX:
            fail("more than that")
        if report["embedded"] + report["unchanged"] != count or report["bad_count"]:
            fail(f"not all are stored: {report}")
        memory(last, count)
        again = Run(importing)
        if again.begun or again.report["unchanged"] != count:
            fail(f"a second import embeds again: {again.report}")
        print(f"once more: {again.seconds:.1f} s, nothing embedded")
        verified = subprocess.run([program, "verify", "--data", data], capture_output=True, text=True)
        if verified.returncode != 0:
            fail(f"the store is damaged: {verified.stdout}{verified.stderr}")


main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
