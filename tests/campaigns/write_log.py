#!/usr/bin/env python3
"""Every state that a power cut could have left: tests/campaigns/write_log.py LOAD [BATCHES].

All writes to an ext4 image are logged by qemu-storage-daemon (its blklogwrites node, the format of the kernel's
dm-log-writes) while LOAD, the program of tests/support-engine/src/bin/load.rs, writes into a store on it. Afterwards the image
is built anew from the log, up to each flush, and once more with an arbitrary part of the writes after that
flush, as a disk with a cache may leave them. Each of these images is mounted and LOAD judges the store: what
had been acknowledged before that point must be there. Needs root, qemu-storage-daemon, FUSE and loop devices;
ends with 77 where they are missing.
"""

import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

IMAGE_BYTES = 64 << 20
SECTOR = 512
FLUSH, FUA, DISCARD = 1, 2, 4
# States with a part of the unflushed writes, for each flush.
TORN = 1


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def skip(why):
    print("!!! SKIPPED:", why, file=sys.stderr)
    sys.exit(77)


def logged(log):
    """How many writes the log says it has; it is told at each flush."""
    with open(log, "rb") as file:
        return struct.unpack("<QQQI", file.read(28))[2]


def entries(log):
    """Sector, bytes and flags of each write."""
    with open(log, "rb") as file:
        _, _, count, sector = struct.unpack("<QQQI", file.read(28))
        at = sector
        for _ in range(count):
            file.seek(at)
            where, sectors, flags, _ = struct.unpack("<QQQQ", file.read(32))
            data = b""
            if not flags & DISCARD and sectors:
                file.seek(at + sector)
                data = file.read(sectors * sector)
            at += sector + len(data)
            yield where * sector, sectors * sector, flags, data


def record(folder, load, batches):
    """Runs the load over a logged image; gives what it said, each line with how far the log was."""
    base, log, fuse, mount = (os.path.join(folder, name) for name in ("base", "log", "fuse", "mount"))
    for image in (base, fuse):
        with open(image, "wb") as file:
            file.truncate(IMAGE_BYTES if image == base else 0)
    with open(log, "wb") as file:
        file.truncate(0)
    os.mkdir(mount)
    daemon = subprocess.Popen([
        "qemu-storage-daemon",
        "--blockdev", f"driver=file,node-name=base,filename={base}",
        "--blockdev", f"driver=file,node-name=log,filename={log}",
        "--blockdev", f"driver=blklogwrites,node-name=all,file=base,log=log,log-sector-size={SECTOR}",
        "--export", f"fuse,id=e,node-name=all,mountpoint={fuse},writable=on",
    ], stderr=subprocess.PIPE, text=True)
    loop, is_mounted, said = None, False, []
    try:
        until = time.monotonic() + 10
        while os.stat(fuse).st_size != IMAGE_BYTES:
            if daemon.poll() is not None:
                skip("qemu-storage-daemon: " + daemon.stderr.read().strip())
            if time.monotonic() > until:
                skip("qemu-storage-daemon exports nothing")
        loop = run("losetup", "--find", "--show", fuse)
        run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", loop)
        run("mount", loop, mount)
        is_mounted = True
        first = logged(log)
        writer = subprocess.Popen([load, "write", f"{mount}/store", "w", "4", batches],
                                  stdout=subprocess.PIPE, text=True)
        for line in writer.stdout:
            said.append((logged(log), line))
        if writer.wait() != 0:
            sys.exit("FAILED: the load did not end well")
    finally:
        if is_mounted:
            run("umount", mount)
        if loop:
            run("losetup", "--detach", loop)
        daemon.terminate()
        daemon.wait()
    return log, first, said


def judge(folder, load, image, said, limit):
    """Mounts a copy of the image and compares; gives what is wrong, or nothing."""
    copy, mount, lines = (os.path.join(folder, name) for name in ("copy", "mount", "said"))
    run("cp", "--sparse=always", image, copy)
    with open(lines, "w") as file:
        for at, line in said:
            if at <= limit:
                file.write(line)
            elif line.startswith("wrote"):
                file.write("maybe" + line[len("wrote"):])
            elif line.startswith("erasing"):
                file.write(line)
    run("mount", "-o", "loop", copy, mount)
    try:
        done = subprocess.run([load, "check", f"{mount}/store", lines], capture_output=True, text=True)
        return None if done.returncode == 0 else done.stderr.strip()
    finally:
        run("umount", mount)


def main():
    load = os.path.abspath(sys.argv[1])
    batches = sys.argv[2] if len(sys.argv) > 2 else "12"
    if os.geteuid() != 0:
        skip("write_log.py needs root")
    if not shutil.which("qemu-storage-daemon"):
        skip("there is no qemu-storage-daemon")
    seed = int(os.environ.get("RECALLD_TEST_SEED", random.randrange(1 << 32)))
    print(f"RECALLD_TEST_SEED={seed}")
    dice = random.Random(seed)
    folder = tempfile.mkdtemp()
    try:
        log, first, said = record(folder, load, batches)
        replay(folder, load, log, first, said, dice)
    finally:
        shutil.rmtree(folder)


def replay(folder, load, log, first, said, dice):
    image = os.path.join(folder, "image")
    with open(image, "wb") as file:
        file.truncate(IMAGE_BYTES)
    opened = next(at for at, line in said if line == "open\n")
    # Writes since the last flush; a write with FUA is on disk when it ends.
    flushes, states, pending, sure = 0, 0, [], 0
    with open(image, "r+b") as file:
        for number, (at, length, flags, data) in enumerate(entries(log), 1):
            if flags & FLUSH or flags & FUA:
                if flags & FLUSH:
                    if number > max(first, opened):
                        for _ in range(TORN):
                            torn(folder, load, file, pending, said, sure, dice, f"torn before write {number}")
                            states += 1
                    for where, bytes_ in pending:
                        write(file, where, bytes_)
                    pending, sure = [], number
            if data:
                pending.append((at, data))
            elif flags & DISCARD:
                pending.append((at, bytes(length)))
            if flags & FUA:
                # A reader of the log may not put it before the writes that came earlier.
                for where, bytes_ in pending:
                    write(file, where, bytes_)
                pending = []
            if flags & FLUSH and number > max(first, opened):
                file.flush()
                flushes, states = flushes + 1, states + 1
                wrong = judge(folder, load, image, said, number)
                if wrong:
                    sys.exit(f"FAILED: after the flush of write {number}: {wrong}")
    commits = sum(line.startswith(("wrote", "hid", "erased")) for _, line in said)
    print(f"{states} states at and after {flushes} flushes of {commits} commits: nothing acknowledged is lost")


def write(file, where, data):
    file.seek(where)
    file.write(data)


def torn(folder, load, file, pending, said, sure, dice, what):
    """The last flushed state with a part of what was written since, sector by sector."""
    file.flush()
    copy = os.path.join(folder, "torn")
    run("cp", "--sparse=always", file.name, copy)
    with open(copy, "r+b") as partly:
        for where, data in pending:
            for start in range(0, len(data), SECTOR):
                if dice.random() < 0.5:
                    write(partly, where + start, data[start:start + SECTOR])
    wrong = judge(folder, load, copy, said, sure)
    if wrong:
        sys.exit(f"FAILED: {what}: {wrong}")


main()
