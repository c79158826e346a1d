"""Tables of measured figures (tests/bench/results/*.csv): rows are complete, and their commands exist."""

import csv
import datetime
import pathlib
import re

import pytest

from checks import check, check_equal

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ROOT / "tests" / "bench" / "results"
COLUMNS = ["what", "command", "chip", "commit", "date", "value", "unit", "spread"]
NUMBER = r"-?\d+(\.\d+)?(e-?\d+)?"
VALUE = re.compile(rf"{NUMBER}((,| to| and) {NUMBER})*(, median {NUMBER})?")


def targets():
    """Names of the programs that the build makes."""
    return {name for path in ROOT.glob("*/**/CMakeLists.txt") if "build" not in path.relative_to(ROOT).parts
            for name in re.findall(r"(?:add_executable|tessera_\w+)\((\S+)", path.read_text())} | {"tessera", "tesserad"}


def faults_of(row, programs):
    """The reasons why a row is no figure that a reader could repeat."""
    if None in row or None in row.values():
        return [f"{len(row)} fields instead of {len(COLUMNS)}"]
    found = [f"no {column}" for column in COLUMNS[:-1] if not row[column].strip()]
    if not VALUE.fullmatch(row["value"]):
        found.append(f"the value is {row['value']!r}")
    if not re.fullmatch(r"[0-9a-f]{7,40}", row["commit"]):
        found.append(f"the commit is {row['commit']!r}")
    try:
        datetime.date.fromisoformat(row["date"])
    except ValueError:
        found.append(f"the date is {row['date']!r}")
    words = [word for word in row["command"].split() if not re.match(r"[A-Z_]+=", word)]
    program = words[0].rstrip(",") if words else ""
    if not (ROOT / program).is_file() and pathlib.PurePath(program).name not in programs:
        found.append(f"there is no program {program!r}")
    return found


@pytest.fixture(scope="module")
def programs():
    return targets()


def test_faults_are_noticed(programs):
    right = dict(zip(COLUMNS, ("a", "tests/bench/run --only b", "c", "0123abc", "2026-11-22", "1.5 to 2", "ms", "")))
    check_equal(faults_of(right, programs), [], "a complete row")
    for column, wrong in (("what", ""), ("command", "tests/bench/no_such --all"), ("commit", "main"), ("date", "22.11.2026"),
                          ("value", "fast"), ("unit", " ")):
        check(faults_of({**right, column: wrong}, programs), f"{column} {wrong!r} passed")
    check(faults_of({**right, None: ["more"]}, programs), "a ninth field passed")


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.csv")), ids=lambda path: path.name)
def test_rows_are_complete(path, programs):
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    check(rows, "no rows")
    if "what" not in reader.fieldnames:  # written by a command with columns of its own
        missing = [column for column in ("chip", "commit", "date") if not all(row.get(column) for row in rows)]
        check(not missing, f"no {missing} in some row")
        return
    check_equal(reader.fieldnames, COLUMNS, "columns")
    faults = [f"line {number}: {row['what']}: {fault}" for number, row in enumerate(rows, 2) for fault in faults_of(row, programs)]
    check(not faults, "\n".join(faults[:10]))
