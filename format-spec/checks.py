"""What reader.py and ledger.py share: damage, and the checksums that show it."""

import hashlib


class Damage(Exception):
    """Bytes that break a rule of the format, or a file that needs a newer reader."""

    def __init__(self, rule, detail):
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


def require(holds, rule, detail):
    if not holds:
        raise Damage(rule, detail)


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
