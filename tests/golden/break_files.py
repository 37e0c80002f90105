"""Damages the files of a store in many ways, one at a time, and reads it after each.

Arguments: folder of reader.py, folder of the store. Whatever is wrong with the bytes, the reader must
end with an error that names a rule, or show the store, or the commits before a torn end.
"""

import io
import os
import random
import re
import sys

sys.path.insert(0, sys.argv[1])
import reader

store, dice = sys.argv[2], random.Random(7)


def read(*options):
    sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    try:
        code = reader.main([*options, store])
        return code, sys.stdout.buffer.getvalue(), sys.stderr.getvalue()
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        reader.Checks.enabled = True


def broken(data):
    """The file with a flipped bit, another byte or a cut, at a place that the dice choose."""
    at = dice.randrange(len(data))
    if dice.randrange(5) == 0:
        return data[:at]
    wrong = bytearray(data)
    wrong[at] = dice.choice((wrong[at] ^ 1 << dice.randrange(8), 0, 0x7F, 0xFF))
    return bytes(wrong)


def checked(told, where):
    code, said, errors = told
    assert code in (0, 1), (where, code, errors)
    if code == 1:
        assert re.search(r"reader\.py: (SEG|LOG|MAN|STA)-[0-9]{2}: ", errors), (where, errors)
    return code, said


code, whole = checked(read(), "as it was made")
assert code == 0 and whole
names = sorted(name for name in os.listdir(store) if name != "LOCK")
refused = 0
for turn in range(int(sys.argv[3])):
    name = names[turn % len(names)]
    path = os.path.join(store, name)
    with open(path, "rb") as file:
        data = file.read()
    wrong = broken(data) if data else b"\0"
    # A new file, as the old one is still mapped.
    os.remove(path)
    with open(path, "wb") as file:
        file.write(wrong)
    code, said = checked(read(), name)
    # What the lost commits hid is shown again.
    hidden = b',"tombstoned":true'
    prefix = whole.replace(hidden, b"").startswith(said.replace(hidden, b""))
    assert code == 1 or prefix, (name, "shows what was never written")
    assert wrong == data or code == 1 or name.startswith("log-"), (name, "shows damage")
    refused += code
    checked(read("--no-checksums"), name + ", without checksums")
    os.remove(path)
    with open(path, "wb") as file:
        file.write(data)
print(refused)
