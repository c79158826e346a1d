"""Tables of figures that others published, beside ours."""

import csv
import datetime
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_table(path, rows, chip):
    """Writes rows of equal keys with the chip, the commit and the day. The figures are computed, so no load is noted."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    about = {"chip": chip, "commit": commit.stdout.strip(), "date": datetime.date.today().isoformat()}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], *about], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, **about} for row in rows)
