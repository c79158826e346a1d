"""Includes have one direction: folders of one folder never include each other in a cycle. If a README contains a table
of rooms (a fenced block "rooms"), the includes must match it."""

import pathlib
import re
import subprocess
import tempfile

from checks import check, check_equal

ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_PRODUCT = re.compile(r"^(compiler|server|storage|workers|clients)/(?!.*(_test\.|_fuzz\.|/testing/|/benchmark/|/simulation/)).*\.(h|cpp|inc)$")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def tracked():
    return subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def in_rooms(files, folder):
    """Files of the product in a room of `folder`."""
    return [name for name in files if OF_PRODUCT.match(name) and name.startswith(folder + "/") and name.count("/") > 1]


def arrows(root, files):
    """(folder, from, to) -> an include that makes room `from` of `folder` depend on room `to`. Files in `folder` itself
    belong to none of its rooms."""
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
    """Each cycle as the includes that close it; a cycle of several rooms is reported once, for its first room."""
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
    """The rooms of the shortest cycle through `start`, or none."""
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


def test_includes_run_one_way():
    files = tracked()
    found = arrows(ROOT, files)
    check(len(found) > 50, f"only {len(found)} rooms that include others were found")
    check_equal(circles(found), [], "circles of rooms")


def test_a_circle_is_told():
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


TABLE = re.compile(r"^```rooms\n(.*?)^```", re.MULTILINE | re.DOTALL)


def table_of(readme):
    """Room -> the rooms that it may include, in the table's order."""
    rows = TABLE.search(readme).group(1).splitlines()
    return {room.strip(): allowed.split() for room, allowed in (row.split("->") for row in rows)}


def table_faults(folder, table, found, files):
    """Differences between the table of rooms of `folder` and its includes."""
    faults = []
    order = list(table)
    for place, (room, allowed) in enumerate(table.items()):
        faults += [f"{folder}: {room} may not include {other}, which does not stand below it"
                   for other in allowed if other not in order[place + 1:]]
    includes = {(a, b): include for (of, a, b), include in found.items() if of == folder}
    faults += [f"{folder}: not in the table: {include}" for (a, b), include in sorted(includes.items())
               if b not in table.get(a, ())]
    faults += [f"{folder}: {a} includes nothing of {b}" for a, allowed in table.items() for b in allowed
               if (a, b) not in includes]
    rooms = {pathlib.PurePath(name).parts[1] for name in in_rooms(files, folder)}
    faults += [f"{folder}: the table lacks {room}" for room in sorted(rooms - set(table))]
    return faults


def root_faults(root, files, folder):
    """Includes, in a room, of a file in `folder` itself."""
    at_root = re.compile(rf'^{folder}/[^/]+\.(h|inc)$')
    return [f"{name} includes {included}" for name in in_rooms(files, folder)
            for included in INCLUDE.findall((root / name).read_text()) if at_root.match(included)]


def test_includes_are_those_of_the_table():
    files = tracked()
    found = arrows(ROOT, files)
    folders = [name.removesuffix("/README.md") for name in files
               if name.endswith("/README.md") and TABLE.search((ROOT / name).read_text())]
    check("compiler" in folders, f"tables of rooms: {folders}")
    for folder in folders:
        table = table_of((ROOT / folder / "README.md").read_text())
        check_equal(table_faults(folder, table, found, files), [], f"rooms of {folder}")
        check_equal(root_faults(ROOT, files, folder), [], f"includes of {folder}'s own files")


def test_deciding_and_applying_use_the_analysis_alone():
    found = arrows(ROOT, tracked())
    sides = ("decide", "apply")
    for side in sides:
        check(any(arrow[:2] == ("compiler/codegen", side) for arrow in found), f"compiler/codegen/{side} includes no room")
    check_equal([include for (of, a, b), include in found.items() if of == "compiler/codegen" and {a, b} == set(sides)],
                [], "includes between the sides of a schedule")


def test_a_difference_from_the_table_is_found():
    files = ["compiler/a/one.h", "compiler/b/two.h", "compiler/c/three.h"]
    found = {("compiler", "a", "b"): "a includes b", ("compiler", "b", "a"): "b includes a"}
    table = table_of("```rooms\na -> b\nb -> a\n```\n")
    check_equal(table_faults("compiler", table, found, files),
                ["compiler: b may not include a, which does not stand below it", "compiler: the table lacks c"], "upward")
    table = table_of("```rooms\na -> c\nb ->\nc ->\n```\n")
    check_equal(table_faults("compiler", table, found, files),
                ["compiler: not in the table: a includes b", "compiler: not in the table: b includes a",
                 "compiler: a includes nothing of c"], "other includes")
