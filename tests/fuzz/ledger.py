#!/usr/bin/python3
"""Which seeds campaigns have run: ledger.py FILE... adds up files of campaign.py --ledger, one line of JSON for each model."""

import collections
import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from fuzz.cases import plan


def lines_of(path):
    """All complete lines: a campaign may have been killed while it wrote the last one."""
    path = pathlib.Path(path)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def models_of(path, kind):
    """Numbers of the models of this kind in the file."""
    return {line["model"] for line in lines_of(path) if line["kind"] == kind}


def add(path, kind, number, target, cases, outcome):
    """Appends the line of a finished model."""
    found = collections.Counter(finding.kind for finding in outcome.findings)
    line = {"kind": kind, "model": number, "target": target, "cases": cases, "compared": outcome.compared,
            "excused": outcome.excused, "found": found}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def ranges(kind, numbers):
    """"FIRST to LAST" of the seeds, for each range of consecutive models."""
    size, told = plan.KINDS[kind][1], []
    for number in sorted(numbers):
        if told and told[-1][1] == number * size:
            told[-1][1] += size
        else:
            told.append([number * size, (number + 1) * size])
    return ", ".join(f"{first} to {end - 1}" for first, end in told)


def main():
    by_kind = collections.defaultdict(list)
    for path in sys.argv[1:]:
        for line in lines_of(path):
            by_kind[line["kind"]].append(line)
    for kind, lines in sorted(by_kind.items()):
        found = sum((collections.Counter(line["found"]) for line in lines), collections.Counter())
        targets = collections.Counter(line["target"] for line in lines)
        print(f"{kind}: {sum(line['cases'] for line in lines)} in {len(lines)} models, "
              f"{sum(line['compared'] for line in lines)} compared, {sum(line['excused'] for line in lines)} excused, "
              f"found: {', '.join(f'{kind} {count}' for kind, count in found.items()) or 'nothing'}")
        print(f"  seeds {ranges(kind, {line['model'] for line in lines})}")
        print(f"  models: {', '.join(f'{target} {count}' for target, count in sorted(targets.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
