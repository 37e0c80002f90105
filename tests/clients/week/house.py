"""The program under the week: started, ended, killed, and told what day it is.

The time that the program is told is that of this machine plus an offset, which libfaketime reads from a file whenever
the program asks; so a week passes in a minute, and the program itself knows nothing of it. Monotonic time is left as it
is: deadlines are real.
"""

import os
import signal
import subprocess
from datetime import datetime, timezone

# The first start may have to fetch the model.
START_SECONDS_MAX = 600
END_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 120


class House:
    """One data directory, the program over it, and its clock."""

    def __init__(self, program, scratch, library):
        self.program, self.scratch = program, scratch
        self.data = scratch / "data"
        self.root = scratch / "files"
        self.offset = scratch / "offset"
        self.settings = scratch / "settings.toml"
        self.server, self.url = None, None
        self.environment = os.environ | {
            "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(self.offset),
            "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}

    def at(self, moment):
        """From now on it is that moment, and time goes on from there."""
        ahead = (moment - datetime.now(timezone.utc)).total_seconds()
        # A program that reads it sees the old file or the new one.
        beside = self.offset.with_suffix(".new")
        beside.write_text(f"{ahead:+.3f}\n", encoding="ascii")
        beside.replace(self.offset)

    def now(self):
        """The time that the program is told."""
        ahead = float(self.offset.read_text(encoding="ascii"))
        return datetime.fromtimestamp(datetime.now(timezone.utc).timestamp() + ahead, timezone.utc)

    def start(self):
        """`recalld serve` on a free port, the folder of files its one ingest root."""
        command = [self.program, "serve", "--local", "127.0.0.1:0", "--data", self.data, "--config", self.settings,
                   "--ingest", self.root]
        with open(self.scratch / "said", "ab") as said:
            self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, env=self.environment, text=True)
        line = self.server.stdout.readline()
        if not line.startswith("ready local="):
            raise RuntimeError(f"not a ready line: {line!r}; {(self.scratch / 'said').read_text()[-2000:]}")
        self.url = line.split()[1].removeprefix("local=")

    def end(self):
        """SIGTERM, which ends it with 0."""
        self.server.send_signal(signal.SIGTERM)
        status, self.server = self.server.wait(END_SECONDS_MAX), None
        if status != 0:
            raise RuntimeError(f"SIGTERM ended the server with {status} instead of 0")

    def kill(self):
        """SIGKILL, as nobody can be ready for."""
        self.server.kill()
        self.server.wait(END_SECONDS_MAX)
        self.server = None

    def leave(self):
        """Whatever became of the week, nothing of it runs on."""
        if self.server is not None:
            self.kill()

    def command(self, *arguments):
        """Status and standard output of a command over the same data."""
        done = subprocess.run([self.program, *arguments, "--data", self.data], env=self.environment, text=True,
                              capture_output=True, timeout=COMMAND_SECONDS_MAX)
        return done.returncode, done.stdout, done.stderr
