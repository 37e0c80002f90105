"""Runs the `sh` blocks of Markdown pages: documents.py PROGRAM [PAGE...]

A page is one shell. Its home is empty, its folder is a copy of what git has of this repository, `recalld` and
`target/release/recalld` are the program, and `cargo run --release --` runs it, too. `serve` goes to the background once it says that
it is ready, and is ended when the page ends, when the next one begins on the same data, or where a comment says so.

Comments right above a block, which no reader sees:
  <!-- not run: WHY -->           why a block is marked `sh no-run`
  <!-- before: COMMANDS -->       what the reader has and a scratch home has not
  <!-- shows: TEXT -->            what the block's output must have in it; may be given many times
  <!-- stop the server -->        it is ended first, as by Ctrl-C
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

# The longest that a page may take: an ingest of this repository's specification on a busy machine.
PAGE_SECONDS_MAX = 1200
# Ports that documents name; a page gets free ones in their place.
PORTS = ("8788", "8789", "8443")
MARK = "\x01at "

WRAPPER = """#!/usr/bin/env bash
# `serve` in the background, everything else as it is.
[[ "${1:-}" == serve ]] || exec "$PROGRAM" "$@"
data="${RECALLD_DATA:-$HOME/.local/state/recalld}"
words=("$@")
for at in "${!words[@]}"; do
    if [[ "${words[at]}" == --data ]]; then data="${words[at + 1]}"; fi
done
if [[ " $* " != *" --local "* ]]; then set -- "$@" --local 127.0.0.1:8788; fi
data="$(realpath -m "$data")"
stop-servers "$data" || exit
ready="$(mktemp -u)"
mkfifo "$ready"
exec 7<>"$ready"
(
    "$PROGRAM" "$@" >"$ready" 2>>"$SCRATCH/served" </dev/null 7>&- &
    echo "$!" >"$ready.pid"
    status=0
    wait "$!" || status=$?
    echo "$status" >"$ready.ended"
    echo "ended with $status: $(tail -n 5 "$SCRATCH/served")" >"$ready"
) &
read -r line <&7
echo "$line"
if [[ "$line" != ready* ]]; then exit 3; fi
# Held open for as long as the server runs, as a terminal is.
cat <&7 >/dev/null 2>&1 &
echo "$! $(cat "$ready.pid") $ready.ended $data" >>"$SCRATCH/servers"
"""

# Ends the servers on these data, or all of them, and wants each to end with 0.
STOP = """#!/usr/bin/env bash
touch "$SCRATCH/servers"
while read -r reader pid ended data; do
    [[ -z "${1:-}" || "$1" == "$data" ]] || continue
    kill -TERM "$pid" 2>/dev/null
    tail --pid="$pid" -f /dev/null
    until [[ -s "$ended" ]]; do read -r -t 0.05 <> <(:); done
    kill "$reader" 2>/dev/null
    sed -i "/^$reader /d" "$SCRATCH/servers"
    if [[ "$(cat "$ended")" != 0 ]]; then
        echo "the server ended with $(cat "$ended")"
        exit 3
    fi
done < <(cat "$SCRATCH/servers")
exit 0
"""

CARGO = """#!/usr/bin/env bash
[[ "$1 $2 $3" == "run --release --" ]] || { echo "only cargo run is here: $*"; exit 3; }
shift 3
exec recalld "$@"
"""


def blocks(text):
    """Each block of shell: (line, kind, code, comments above it)."""
    found, above, opened = [], "", None
    for number, line in enumerate(text.splitlines(), 1):
        if opened:
            if line.startswith("```"):
                found.append(opened)
                opened = None
            else:
                opened[2].append(line)
        elif line.startswith("```"):
            opened = (number, line.strip("`").strip(), [], above)
            above = ""
        elif line.startswith("<!--") or (above and "-->" not in above[above.rfind("<!--"):]):
            above += line + "\n"
        elif line.strip():
            above = ""
    return [block for block in found if block[1].split(" ")[0] == "sh"]


def comments(above, name):
    return [text.strip() for text in re.findall(rf"<!-- {name}:?(.*?)-->", above, re.S)]


def commands(lines, first):
    """Whole commands, each with its line: lines that a shell would wait for more of are one."""
    piece, found, begun = "", [], first
    for number, line in enumerate(lines, first):
        if not piece:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            begun = number
        piece += line + "\n"
        checked = subprocess.run(["bash", "-n"], input=piece, text=True, capture_output=True)
        if checked.returncode == 0 and not checked.stderr and not line.endswith("\\"):
            found.append((begun, piece))
            piece = ""
    if piece:
        sys.exit(f"line {begun}: this command has no end: {piece}")
    return found


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


def write(path, text):
    path.write_text(text)
    path.chmod(0o755)


def checkout(folder):
    """What git has of this repository or would take, as it lies here."""
    named = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard"], check=True, capture_output=True).stdout
    for name in filter(None, named.decode().split("\0")):
        source = pathlib.Path(name)
        if source.is_file():
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / source)


class Page:
    """One page, in a scratch folder of its own."""

    def __init__(self, program, path, scratch):
        self.path, self.scratch = path, pathlib.Path(scratch)
        self.ports = dict(zip(PORTS, free_ports(len(PORTS))))
        bin_folder = self.scratch / "bin"
        home = self.scratch / "home"
        checkout_folder = home / "recalld"
        for folder in (bin_folder, home, checkout_folder, self.scratch / "tmp"):
            folder.mkdir(parents=True)
        checkout(checkout_folder)
        (checkout_folder / "target/release").mkdir(parents=True)
        for name, text in (("recalld", WRAPPER), ("stop-servers", STOP), ("cargo", CARGO)):
            write(bin_folder / name, self.moved(text))
        (checkout_folder / "target/release/recalld").symlink_to(bin_folder / "recalld")
        kept = {name: os.environ[name] for name in ("LANG", "USER") if name in os.environ}
        # The model is the machine's: fetching it is not what is tried here.
        cache = os.environ.get("RECALLD_CACHE") or os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "recalld")
        self.environment = kept | {
            "HOME": str(home), "PATH": f"{bin_folder}:{os.environ['PATH']}", "PROGRAM": program,
            "SCRATCH": str(self.scratch), "TMPDIR": str(self.scratch / "tmp"), "RECALLD_CACHE": cache,
        }
        self.folder = checkout_folder if path.name == "README.md" else home

    def moved(self, text):
        """The same with free ports."""
        return re.sub("|".join(PORTS), lambda found: self.ports[found[0]], text)

    def script(self):
        """The shell of the page, how many commands it runs and how many it does not, and what blocks must show."""
        lines, shows, ran, left = ["set -eo pipefail", "exec 2>&1"], {}, 0, 0
        for number, kind, code, above in blocks(self.path.read_text()):
            found = commands(code, number + 1)
            if kind != "sh":
                left += len(found)
                continue
            ran += len(found)
            if comments(above, "stop the server"):
                lines.append("stop-servers")
            lines += [self.moved(text) for text in comments(above, "before")]
            for line, command in found:
                lines += [f"printf '%s\\n' '{MARK}{line} {number}'", self.moved(command)]
            shows[number] = [self.moved(text) for text in comments(above, "shows")]
        lines += [f"printf '%s\\n' '{MARK}end 0'", "stop-servers"]
        return "\n".join(lines) + "\n", ran, left, shows

    def run(self):
        """Counts of commands run and left out, and what went wrong, if anything."""
        script, ran, left, shows = self.script()
        said = self.scratch / "said"
        with said.open("wb") as out:
            shell = subprocess.Popen(
                ["bash", "-c", script], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, start_new_session=True)
            try:
                status = shell.wait(PAGE_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                status = "no end"
        try:
            # What a page left behind is in the session that was made for it.
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return ran, left, self.judged(status, said.read_text(errors="replace"), shows)

    def judged(self, status, said, shows):
        parts, output, at = said.split(MARK), {}, "the beginning"
        for part in parts[1:]:
            head, _, rest = part.partition("\n")
            at, block = head.split(" ")
            output[int(block)] = output.get(int(block), "") + rest
        if status != 0 or at != "end":
            return f"{self.path}:{at}: ended with {status}:\n{parts[-1][-4000:]}"
        for block, texts in shows.items():
            for text in texts:
                if text not in output.get(block, ""):
                    return f"{self.path}:{block}: does not show {text!r}:\n{output.get(block, '')[-4000:]}"
        return None


def main():
    program, *pages = sys.argv[1:]
    pages = [pathlib.Path(page) for page in pages] or [
        pathlib.Path("README.md"), *sorted(pathlib.Path("docs").glob("*.md"))]
    wrong, all_ran, all_left = [], 0, 0
    for path in pages:
        if not blocks(path.read_text()):
            continue
        with tempfile.TemporaryDirectory(prefix="recalld-documents-") as scratch:
            ran, left, fault = Page(program, path, scratch).run()
        all_ran, all_left = all_ran + ran, all_left + left
        print(f"{path}: {ran} commands run, {left} not run{', FAILED' if fault else ''}", flush=True)
        if fault:
            wrong.append(fault)
    print(f"documents: {all_ran} commands run, {all_left} not run")
    if wrong:
        sys.exit("\n\n".join(wrong))


if __name__ == "__main__":
    main()
