"""What reader.py and ledger.py share: damage, the checksums that show it, and the place of a workspace's files."""

import hashlib
import os


class Damage(Exception):
    """Bytes that break a rule of the format, or a file that needs a newer reader."""

    def __init__(self, rule, detail):
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


def require(holds, rule, detail):
    if not holds:
        raise Damage(rule, detail)


# --- Data directories ----------------------------------------------------------------------------


def part_of(folder, part, workspace):
    """The folder of a workspace's `part`, "store" or "ledger", in a data directory or in a backup, which has the same
    layout (backup.md). Any other folder is the part itself."""
    if os.path.exists(os.path.join(folder, "restoring")):
        raise FileNotFoundError(f"BAK-08: {folder} was not restored to its end")
    tenants = os.path.join(folder, "tenants")
    if not os.path.isdir(tenants):
        return folder
    name = workspace or "local"
    found = os.path.join(tenants, name, part)
    if not os.path.isdir(found):
        there = sorted(entry for entry in os.listdir(tenants) if os.path.isdir(os.path.join(tenants, entry, part)))
        listed = ", ".join(there) or "none"
        raise FileNotFoundError(f"{folder} has no {part} of a workspace {name}; --workspace may name: {listed}")
    return found


# --- Checksums -----------------------------------------------------------------------------------


def crc_table():
    """CRC-32C (Castagnoli): reflected polynomial 0x82F63B78, one entry for each byte."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc_table()


class Checks:
    """Compares checksums, unless it was told to look past them."""

    enabled = True

    @classmethod
    def crc(cls, expected, rule, detail, *pieces):
        if cls.enabled:
            require(crc32c(*pieces) == expected, rule, detail)

    @classmethod
    def sha256(cls, expected, rule, detail, data):
        if cls.enabled:
            require(hashlib.sha256(data).hexdigest() == expected, rule, detail)


def crc32c(*pieces):
    crc = 0xFFFFFFFF
    for piece in pieces:
        for byte in piece:
            crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
