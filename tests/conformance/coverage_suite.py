#!/usr/bin/python3
"""Writes COVERAGE.md: what of ONNX is compiled, by operator set, operator and attribute, and why the rest is rejected.

Its sources are the importer's table (compiler/import/OPERATORS.md), ONNX's definitions and test cases (Debian's
packages), and the lists of passing and rejected cases in this folder. Fails if the page is outdated; --update writes
it."""

import collections
import difflib
import pathlib
import re
import sys

import onnx
from onnx import defs

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))  # where this file is a program

from checks import check

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE / "COVERAGE.md"
TABLE = HERE.parents[1] / "compiler" / "import" / "OPERATORS.md"
DATA = pathlib.Path("/usr/share/libonnx-testdata/data/node")
ROW = re.compile(r"^\| (\S+) \| (\d+) to (\d+) \|")


def operator_table():
    """Operator -> [(first, last version)] in ONNX's own domain, and the newest version of all."""
    versions = collections.defaultdict(list)
    for line in TABLE.read_text().splitlines():
        row = ROW.match(line)
        if row and "." not in row[1]:
            versions[row[1]].append((int(row[2]), int(row[3])))
    return versions, max(last for spans in versions.values() for _, last in spans)


def takes(versions, name, version):
    return any(first <= version <= last for first, last in versions.get(name, ()))


def reasons(name):
    """Case -> why it does not pass."""
    lines = [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(" ", 1) for line in lines if line.startswith("node/"))


def operator_of(case):
    """Type and attribute names of the case's single node."""
    graph = onnx.load(DATA / case.removeprefix("node/") / "model.onnx").graph
    if len(graph.node) != 1 or graph.node[0].domain not in ("", "ai.onnx"):
        return None, ()
    return graph.node[0].op_type, [attribute.name for attribute in graph.node[0].attribute]


def schemas_at(version):
    found = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= version:
            if schema.name not in found or found[schema.name].since_version < schema.since_version:
                found[schema.name] = schema
    return {name: schema for name, schema in found.items() if not schema.deprecated}


def by_version(versions):
    lines = ["| operator set | defined | compiled | refused |", "|---|---|---|---|"]
    for version in range(7, defs.onnx_opset_version() + 1):
        names = schemas_at(version)
        refused = sorted(name for name in names if not takes(versions, name, version))
        lines.append(f"| {version} | {len(names)} | {len(names) - len(refused)} | {', '.join(refused)} |")
    return lines


def by_operator(versions):
    tested, seen, why = collections.Counter(), collections.defaultdict(set), collections.defaultdict(collections.Counter)
    refused = reasons("others.txt")
    for folder in sorted(DATA.iterdir()):
        case = f"node/{folder.name}"
        operator, attributes = operator_of(case)
        if not operator:
            continue
        if case in refused:
            why[operator][refused[case]] += 1
            continue
        tested[operator] += 1
        seen[operator].update(attributes)
    lines = ["| operator | versions | cases | attributes in them | other attributes | refused |", "|---|---|---|---|---|---|"]
    newest = schemas_at(defs.onnx_opset_version())
    for name in sorted({*newest, *versions}):
        spans = ", ".join(f"{first} to {last}" for first, last in versions.get(name, ())) or "none"
        known = set(newest[name].attributes) if name in newest else set()
        text = "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in sorted(why[name].items()))
        if name not in versions and not text:
            text = f"operator {name}"
        lines.append(f"| {name} | {spans} | {tested[name] or '-'} | {', '.join(sorted(seen[name]))} | "
                     f"{', '.join(sorted(known - seen[name]))} | {text} |")
    return lines


def by_reason():
    counts = collections.Counter()
    for case, reason in reasons("newest.txt").items():
        counts[re.sub(r"(input|output) '[^']*'", r"an \1", reason)] += 1
    return ["| refused | cases |", "|---|---|", *(f"| {reason} | {count} |" for reason, count in sorted(counts.items()))]


def page():
    versions, newest = operator_table()
    added = sorted(name for name in versions if name not in schemas_at(defs.onnx_opset_version()))
    return "\n".join([
        "# ONNX coverage", "",
        "`coverage_suite.py --update` writes this page from the importer's table, ONNX's definitions up to operator set "
        f"{defs.onnx_opset_version()}, and its test cases. Each rejection is an error that names the node, the found value and the accepted",
        "ones. An attribute that no code reads is rejected by name, because ignoring it could change the result.", "",
        "## By operator set", "", *by_version(versions), "",
        f"Also compiled, from newer operator sets up to {newest} and from experimental ones: {', '.join(added)}.", "",
        "## By operator", "",
        f"Cases are ONNX's own tests of one node (up to operator set {defs.onnx_opset_version()}) that pass in the importer and in the whole product.", "",
        *by_operator(versions), "",
        "## Cases of newer releases that do not pass", "", *by_reason(), ""])


def test_the_page_is_up_to_date():
    difference = list(difflib.unified_diff(PAGE.read_text().splitlines(), page().splitlines(), "COVERAGE.md", "as it is", lineterm=""))
    check(not difference, "\n".join(difference))


def main():
    if sys.argv[1:] != ["--update"]:
        sys.exit(__doc__)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
