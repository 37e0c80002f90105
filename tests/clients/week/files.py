"""The folder that is ingested on the third day: a small repository under git with a file of each kind that is read, one
that is broken, one with a secret, and one that leads out of the root. Everything is made here, by hand."""

import os
import struct
import subprocess
import zlib

# In pieces, so that no scanner of repositories takes this file for a leak.
SECRET = "AKIA" + "Q3EGRTZ7YN2VKWLM"
# Lines of deploy.md that hold it.
SECRET_LINE = 5
# Files of a folder whose ingest is called off on the way.
SURVEY_FILES = 400

README = """\
# Saltmarsh tide gauge

Reads the water level at Northpier every six minutes. Start with the [decisions](docs/decisions.md), then the
[runbook](docs/runbook.rst).

## Install

Mount the sensor on the third piling, four metres above chart datum.

## Calibration

Compare the sensor with the tide staff at slack water, once a month. The zero of the staff is 1.20 m above chart datum.
"""

DECISIONS = """\
# Decisions

Back to the [readme](../README.md).

## Sensor

We chose a radar sensor over a pressure sensor because eelgrass fouls whatever hangs in the water.

## Upload

Readings are uploaded every hour over the harbour's wireless network.
"""

RUNBOOK = """\
Runbook
=======

Sensor silent
-------------

Climb to the third piling, wipe the antenna of the radar, and power-cycle the logger with the green key.

Staff and sensor differ
-----------------------

A difference of more than two centimetres is written down in the `decisions <decisions.md>`_.
"""

VISITORS = """\
<!DOCTYPE html>
<html><head><title>Visiting Northpier</title></head>
<body><h1>Visiting</h1>
<p>The gangway is closed at spring tides &amp; in gales.</p>
<h2>Parking</h2>
<p>Park behind the ice house, never on the slipway.</p>
</body></html>
"""

GAUGE_RS = """\
//! Water levels from echoes.

/// Height of the water above chart datum in millimetres, from the echo's way in millimetres.
pub fn level_above_datum(sensor_height: i32, echo: i32) -> i32 {
    sensor_height - echo
}

/// Whether an echo is a wave's crest and no level.
pub fn is_crest(level: i32, median: i32) -> bool {
    level - median > 350
}
"""

REPORT_PY = """\
\"\"\"The monthly report.\"\"\"


class MonthlyReport:
    \"\"\"High and low waters of a month.\"\"\"

    def highest(self, levels):
        \"\"\"The highest level; gaps of more than an hour are told.\"\"\"
        return max(levels)
"""

STATIONS = """\
station,operator,height_mm
Northpier,Ines Halloran,4020
Oyster Sill,Bram Teague,3875
Cooper's Gat,Ines Halloran,4110
"""

READINGS = """\
{"id": "r1", "text": "Spring tide of 18 September: 2.31 m at Northpier, the highest of the year."}
{"id": "r2", "text": "Neap tide of 26 September: 0.84 m at Oyster Sill."}
"""

DEPLOY = f"""\
# Deployment

The logger uploads with the key of the harbour office.

aws_access_key_id = {SECRET}
"""


def pdf(title, pages):
    """A PDF of these pages, each a list of lines."""
    kids = " ".join(f"{5 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< /Title ({title}) >>",
    ]
    for at, lines in enumerate(pages):
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {6 + 2 * at} 0 R "
                       "/Resources << /Font << /F1 3 0 R >> >> >>")
        drawn = "BT /F1 12 Tf 72 720 Td\n" + "".join(f"({line}) Tj 0 -14 Td\n" for line in lines) + "ET"
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, made in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{made}\nendobj\n".encode("ascii")
    table, count = len(out), len(objects) + 1
    out += f"xref\n0 {count}\n0000000000 65535 f \n".encode("ascii")
    out += b"".join(f"{place:010} 00000 n \n".encode("ascii") for place in places)
    end = f"trailer\n<< /Size {count} /Root 1 0 R /Info 4 0 R >>\nstartxref\n{table}\n%%EOF\n"
    return out + end.encode("ascii")


def png(width, height, texts):
    """A grey picture with these texts in it."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x80" * width) * height
    words = b"".join(chunk(b"tEXt", f"{name}\0{text}".encode("latin-1")) for name, text in texts.items())
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + words + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def survey(number):
    """One of many notes, no two alike."""
    return (f"# Survey {number}\n\nOn walk {number} the marsh edge stood {number * 7 % 400} cm from peg {number % 23}, and "
            f"{number * 31 % 17} avocets were counted.\n")


def git(folder, *arguments):
    who = ["-c", "user.name=Ines", "-c", "user.email=ines@example.org", "-c", "init.defaultBranch=main"]
    alone = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *who, *arguments], cwd=folder, env=alone, check=True, capture_output=True)


def make(root, outside):
    """The repository `gauge` beneath `root`, a folder `survey` beside it, and what lies outside."""
    gauge = root / "gauge"
    files = {
        "README.md": README, "docs/decisions.md": DECISIONS, "docs/runbook.rst": RUNBOOK, "docs/visitors.html": VISITORS,
        "src/gauge.rs": GAUGE_RS, "src/report.py": REPORT_PY, "data/stations.csv": STATIONS,
        "data/readings.jsonl": READINGS, "docs/deploy.md": DEPLOY,
        "papers/datum.pdf": pdf("Chart datum at Northpier", [
            ["Chart datum at Northpier", "Chart datum lies 2.94 m below the brass bolt in the quay wall."],
            ["The bolt was levelled in 2019 by the harbour office."]]),
        "pictures/pier.png": png(64, 48, {"Title": "Northpier from the ice house",
                                          "Description": "The radar hangs on the third piling."}),
        # It says that it is a PDF, and is none.
        "papers/torn.pdf": b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog",
    }
    for name, content in files.items():
        path = gauge / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    outside.mkdir(parents=True, exist_ok=True)
    (outside / "payroll.md").write_text("# Payroll\n\nNobody but the treasurer reads this.\n", encoding="utf-8")
    os.symlink(outside / "payroll.md", gauge / "docs" / "payroll.md")
    git(gauge, "init")
    git(gauge, "add", "--all")
    git(gauge, "commit", "--message", "The gauge as it stands")
    folder = root / "survey"
    folder.mkdir()
    for number in range(SURVEY_FILES):
        (folder / f"{number:03}.md").write_text(survey(number), encoding="utf-8")
    return gauge


def change(gauge):
    """What a morning's work does to it: one file renamed, one edited, one deleted; committed."""
    git(gauge, "mv", "docs/runbook.rst", "docs/when-it-fails.rst")
    path = gauge / "docs" / "decisions.md"
    path.write_text(DECISIONS.replace("every hour", "every ten minutes"), encoding="utf-8")
    git(gauge, "rm", "--quiet", "docs/visitors.html")
    git(gauge, "add", "--all")
    git(gauge, "commit", "--message", "Upload more often")
