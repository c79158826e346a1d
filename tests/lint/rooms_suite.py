#!/usr/bin/python3
"""Includes run one way: among the folders of one folder no two include each other, by whatever way round."""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from suite import check, check_equal, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_PRODUCT = re.compile(r"^(compiler|server|storage|workers|clients)/(?!.*(_test\.|_fuzz\.|/testing/|/benchmark/|/simulation/)).*\.(h|cpp|inc)$")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def arrows(root, files):
    """(folder, from, to) -> an include that makes room `from` of `folder` depend on room `to`; files that stand in
    `folder` itself belong to no room of it."""
    found = {}
    for name in files:
        if not OF_PRODUCT.match(name):
            continue
        for included in INCLUDE.findall((root / name).read_text()):
            if not (root / included).is_file():
                continue
            here, there = pathlib.PurePath(name).parent.parts, pathlib.PurePath(included).parent.parts
            shared = next((n for n, (a, b) in enumerate(zip(here, there)) if a != b), None)
            if shared is not None:
                found.setdefault(("/".join(here[:shared]), here[shared], there[shared]), f"{name} includes {included}")
    return found


def circles(found):
    """Each way round, as the includes that close it; a circle of several rooms is told once for its first room."""
    told = []
    for folder in sorted({folder for folder, _, _ in found}):
        edges = {}
        for (of, a, b) in found:
            if of == folder:
                edges.setdefault(a, []).append(b)
        seen = set()
        for start in sorted(edges):
            way = shortest(edges, start)
            if way and not seen & set(way):
                seen |= set(way)
                told.append("; ".join(found[folder, a, b] for a, b in zip(way, [*way[1:], way[0]])))
    return told


def shortest(edges, start):
    """The rooms of the shortest way from `start` back to it, or none."""
    ways = [[start]]
    reached = set()
    while ways:
        way = ways.pop(0)
        for following in sorted(edges.get(way[-1], ())):
            if following == start:
                return way
            if following not in reached:
                reached.add(following)
                ways.append([*way, following])
    return []


def includes_run_one_way():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    found = arrows(ROOT, files)
    check(len(found) > 50, f"only {len(found)} rooms that include others were found")
    check_equal(circles(found), [], "circles of rooms")


def a_circle_is_told():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        texts = {"compiler/a/one.h": '#include "compiler/b/two.h"\n', "compiler/b/two.h": '#include "compiler/c/three.h"\n',
                 "compiler/c/three.h": "", "compiler/c/four.cpp": '#include "compiler/a/one.h"\n',
                 "compiler/b/two_test.cpp": '#include "compiler/a/one.h"\n'}
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        check_equal(circles(arrows(root, texts)),
                    ["compiler/a/one.h includes compiler/b/two.h; compiler/b/two.h includes compiler/c/three.h; "
                     "compiler/c/four.cpp includes compiler/a/one.h"], "a circle of three")
        (root / "compiler/c/four.cpp").write_text("")
        check_equal(circles(arrows(root, texts)), [], "without its last include")


if __name__ == "__main__":
    sys.exit(run("rooms", [("includes_run_one_way", includes_run_one_way), ("a_circle_is_told", a_circle_is_told)]))
