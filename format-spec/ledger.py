"""Checks an audit ledger: `reader.py --ledger DIR` runs it, for the ledger's folder or for a data directory.

Written from ledger.md alone, with nothing but Python's standard library. It walks the chain entry by entry, with
one volume in memory, changes nothing and takes no lock. With `--key HEX` (32 bytes; may be given many times) it checks
the signatures of checkpoints too (without, `checkpoints.ok` and `unsigned` are null), with `--workspace NAME` that the
ledger is that workspace's (in a data directory NAME selects the ledger, that of `local` if none is named), and with
`--anchor SEQ:HASH` that it still has the entry of a checkpoint that is stored elsewhere.

Prints one JSON object, as `recalld ledger verify --json` does. Exit code: 0 all is well, 1 it is not (or cannot be
read), 2 wrong use.
"""

import hashlib
import json
import os
import re
import struct
import sys

from checks import Damage, crc32c, part_of, require

HEADER = struct.Struct("<8sIIQ32s32s36sI")
FRAME = struct.Struct("<HHI")
ENTRY = struct.Struct("<BBBBIQQ32s16s32s32sBBB5s")
CHECKPOINT = struct.Struct("<B7sQ32sQ8s64s")
MAGIC = b"RCLEDGER"
VERSION = 1
ENTRY_BYTES_MAX = 1552
VOLUME_BYTES_MAX = 64 << 20
VOLUMES_MAX = 65536
LISTED_MAX = 64
UNSIGNED_MAX = 1000
SECTOR = 512
ZERO = bytes(32)
NAME = re.compile(r"ledger-(\d{20})\.log")


# --- Ed25519 (RFC 8032, section 5.1), to verify --------------------------------------------------

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(left, right):
    """The sum of two points in extended coordinates (section 5.1.4)."""
    a = (left[1] - left[0]) * (right[1] - right[0]) % P
    b = (left[1] + left[0]) * (right[1] + right[0]) % P
    c = 2 * left[3] * right[3] * D % P
    d = 2 * left[2] * right[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = add(result, point)
        point, number = add(point, point), number >> 1
    return result


def point_of(data):
    """A point in its only form (section 5.1.3); None where there is none, or it is of small order."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or x == 0 and sign:
        return None
    x = P - x if x & 1 != sign else x
    point = (x, y, 1, x * y % P)
    return None if is_same(times(8, point), (0, 1, 1, 0)) else point


def is_same(left, right):
    return not (left[0] * right[2] - right[0] * left[2]) % P and not (left[1] * right[2] - right[1] * left[2]) % P


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(key, message, signature):
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    ours, theirs = point_of(key), point_of(r)
    if ours is None or theirs is None or s >= ORDER:
        return False
    hashed = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % ORDER
    return is_same(times(s, BASE), add(theirs, times(hashed, ours)))


# --- The walk ------------------------------------------------------------------------------------


class Ledger:
    """What is known of a ledger so far."""

    def __init__(self, folder, keys, workspace, anchor):
        self.folder, self.anchor = folder, anchor
        self.keys = {hashlib.sha256(key).digest()[:8]: key for key in keys}
        self.tenant = workspace and hashlib.sha256(workspace.encode()).digest()
        self.seq, self.head, self.is_open = 0, ZERO, False
        self.signed_seq, self.since_checkpoint = 0, 0
        self.checkpoints, self.all_signed, self.anchor_met = 0, True, False
        self.fault = None

    def report(self):
        return {
            "ok": self.fault is None,
            "entries": self.seq,
            "head_seq": self.seq,
            "head_hash": self.head.hex(),
            "checkpoints": {"count": self.checkpoints, "ok": self.all_signed if self.keys else None},
            "unsigned": self.seq - self.signed_seq if self.keys else None,
            "fault": self.fault,
        }

    def check(self):
        try:
            names = self.volumes()
            for name in names:
                self.volume(name, name == names[-1])
            self.ask_anchor()
        except Damage as damage:
            self.fault = self.fault or damage.rule
        return self

    def volumes(self):
        names = sorted(name for name in os.listdir(self.folder) if name.startswith("ledger-"))
        require(all(NAME.fullmatch(name) for name in names), "LED-01", "a file has another name")
        require(len(names) <= VOLUMES_MAX, "LED-03", f"{len(names)} volumes")
        return names

    def volume(self, name, is_last):
        with open(os.path.join(self.folder, name), "rb") as file:
            data = file.read(VOLUME_BYTES_MAX + 1)
        is_sized = HEADER.size <= len(data) <= VOLUME_BYTES_MAX
        require(is_sized and data.startswith(MAGIC), "LED-03", f"{name} is no volume")
        _, read, _, first, previous, tenant, reserved, check = HEADER.unpack_from(data)
        is_right = check == crc32c(data[: HEADER.size - 4]) and not any(reserved)
        require(is_right, "LED-04", f"{name}: the header")
        require(read <= VERSION, "LED-05", f"{name} needs a reader of version {read}")
        if not self.is_open:
            self.tenant = self.tenant or tenant
            self.head, self.is_open = hashlib.sha256(b"ledger origin v1\0" + self.tenant).digest(), True
            self.meet()
        follows = first == int(NAME.fullmatch(name)[1]) == self.seq + 1 and previous == self.head
        require(follows, "LED-06", f"{name} does not follow")
        require(tenant == self.tenant, "LED-07", f"{name} is of another workspace")
        at = HEADER.size
        while at < len(data):
            at = self.frame(data, at, is_last)
        # A volume that another one follows ends with a checkpoint.
        require(is_last or not self.since_checkpoint, "LED-17", f"{name} ends without a checkpoint")

    def frame(self, data, at, is_last):
        try:
            body = frame_body(data, at)
        except Damage as damage:
            if is_last and is_torn(data, at):
                raise Damage("LED-18", f"the last {len(data) - at} bytes are a torn tail") from damage
            raise
        require(body[0] in (1, 2), "LED-10", f"a frame of kind {body[0]}")
        self.entry(body) if body[0] == 1 else self.checkpoint(body)
        return at + FRAME.size + len(body)

    def entry(self, body):
        seq, previous = read_entry(body)
        require(seq == self.seq + 1, "LED-12", f"entry {seq} after {self.seq}")
        require(previous == self.head, "LED-13", f"entry {seq} does not name the one before")
        require(self.since_checkpoint < UNSIGNED_MAX, "LED-17", f"no checkpoint before entry {seq}")
        self.seq, self.head = seq, hashlib.sha256(body).digest()
        self.since_checkpoint += 1
        self.meet()

    def meet(self):
        self.anchor_met = self.anchor_met or self.anchor == (self.seq, self.head)

    def checkpoint(self, body):
        require(len(body) == CHECKPOINT.size, "LED-14", f"a checkpoint of {len(body)} bytes")
        _, reserved, seq, head, at, key, signature = CHECKPOINT.unpack(body)
        require(not any(reserved), "LED-14", "reserved bytes of a checkpoint")
        is_here = seq == self.seq and head == self.head and self.since_checkpoint
        require(is_here, "LED-15", f"a checkpoint of entry {seq} after {self.seq}")
        self.checkpoints += 1
        self.since_checkpoint = 0
        message = b"ledger checkpoint v1\0" + self.tenant + struct.pack("<Q", seq) + head + struct.pack("<Q", at)
        if key in self.keys and is_signed(self.keys[key], message, signature):
            self.signed_seq = seq
        elif self.keys:
            self.all_signed = False
            self.fault = self.fault or "LED-16"

    def ask_anchor(self):
        is_void = self.anchor is None or self.anchor_met or self.anchor[0] == 0 and not self.is_open
        require(is_void, "LED-19", "the ledger does not hold its anchor")


def frame_body(data, at):
    require(at + FRAME.size <= len(data), "LED-08", "a frame is cut short")
    length, complement, check = FRAME.unpack_from(data, at)
    is_length = 1 <= length <= ENTRY_BYTES_MAX and length ^ complement == 0xFFFF
    require(is_length, "LED-08", "the length of a frame")
    body = data[at + FRAME.size : at + FRAME.size + length]
    require(len(body) == length, "LED-09", "a frame is cut short")
    require(crc32c(data[at : at + 4], body) == check, "LED-09", "the checksum of a frame")
    return body


def is_torn(data, at):
    """LED-18, of the bytes from the start of a bad frame to the end of the last volume."""
    rest = data[at:]
    if not any(rest):
        return True
    if len(rest) < FRAME.size:
        return True
    length, complement, _ = FRAME.unpack_from(rest)
    is_length = 1 <= length <= ENTRY_BYTES_MAX and length ^ complement == 0xFFFF
    if is_length and FRAME.size + length > len(rest):
        return True
    end = at + FRAME.size + (length if is_length else ENTRY_BYTES_MAX)
    sectors = range(-(-(at + 1) // SECTOR) * SECTOR, min(end, len(data)), SECTOR)
    return any(not any(data[sector:]) for sector in sectors)


def read_entry(body):
    require(len(body) >= ENTRY.size, "LED-11", "an entry is too short")
    _, decision, outcome, listed, total, seq, _, previous, _, _, rest, *lengths, reserved = ENTRY.unpack_from(body)
    tool, principal, rule = lengths
    ends = ENTRY.size + tool + principal + rule
    is_right = (
        1 <= decision <= 3 and 1 <= outcome <= 4 and not any(reserved)
        and 1 <= tool <= 64 and 1 <= principal <= 160 and 1 <= rule <= 96
        and listed == min(total, LISTED_MAX) and (rest == ZERO) == (total <= LISTED_MAX)
        and len(body) == ends + 17 * listed
        and all(1 <= effect <= 7 for effect in body[ends::17])
    )
    require(is_right, "LED-11", f"entry {seq}: codes and lengths")
    at = ENTRY.size
    for length in lengths:
        text = body[at : at + length].decode("utf-8", "surrogateescape")
        is_text = not any("\ud800" <= c <= "\udfff" or c < " " or "\x7f" <= c <= "\x9f" for c in text)
        require(is_text, "LED-11", f"entry {seq}: a text")
        at += length
    return seq, previous


# --- The command ---------------------------------------------------------------------------------


def main(arguments):
    keys, workspace, anchor, folders = [], None, None, []
    rest = iter(arguments)
    try:
        for argument in rest:
            if argument == "--key":
                keys.append(bytes.fromhex(next(rest)))
                require(len(keys[-1]) == 32, "--key", "32 bytes in hexadecimal are wanted")
            elif argument == "--workspace":
                workspace = next(rest)
            elif argument == "--anchor":
                seq, head = next(rest).split(":")
                anchor = int(seq), bytes.fromhex(head)
            else:
                require(not argument.startswith("-"), argument, "there is no such option")
                folders.append(argument)
        require(len(folders) == 1, "DIR", "one folder is wanted")
    except (Damage, StopIteration, ValueError) as error:
        print(f"reader.py: {error}\n\n{__doc__.strip()}", file=sys.stderr)
        return 2
    try:
        folder = part_of(folders[0], "ledger", workspace)
        if folder != folders[0]:
            workspace = workspace or "local"
        report = Ledger(folder, keys, workspace, anchor).check().report()
    except OSError as error:
        print(f"reader.py: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report, separators=(",", ":")))
    return 0 if report["ok"] else 1
