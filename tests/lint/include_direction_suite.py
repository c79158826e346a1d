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


def room_in(root, folder, path):
    """The room of `folder` that a file below it belongs to. A file in `folder` itself belongs to the room "." if neither
    its header nor its source includes a room of `folder`; otherwise it is a room of its own, named by its stem. Nothing
    for a source without a header, which no file includes."""
    parts = pathlib.PurePath(path).relative_to(folder).parts
    if len(parts) > 1:
        return parts[0]
    stem = path.rsplit(".", 1)[0]
    if not (root / f"{stem}.h").is_file():
        return None
    texts = [(root / f"{stem}.{kind}").read_text() for kind in ("h", "cpp") if (root / f"{stem}.{kind}").is_file()]
    above = any(included.startswith(folder + "/") and included.count("/") > folder.count("/") + 1
                for text in texts for included in INCLUDE.findall(text))
    return pathlib.PurePath(stem).name if above else "."


def arrows_of_table(root, files, folder):
    """Like arrows(), between the rooms of one folder, with its own files as rooms (room_in)."""
    found = {}
    for name in files:
        if not OF_PRODUCT.match(name) or not name.startswith(folder + "/"):
            continue
        here = room_in(root, folder, name)
        for included in INCLUDE.findall((root / name).read_text()):
            if included.startswith(folder + "/") and (root / included).is_file():
                there = room_in(root, folder, included)
                if here and there and here != there:
                    found.setdefault((folder, here, there), f"{name} includes {included}")
    return found


def arrows(root, files):
    """(folder, from, to) -> an include that makes room `from` of `folder` depend on room `to`. Files in `folder` itself
    are left out (own_arrows)."""
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
    check_equal(circles(found), [], "cycles of rooms")


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


def table_faults(folder, table, found, rooms):
    """Differences between the table of `folder`, which has these rooms, and its includes."""
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
    faults += [f"{folder}: the table lacks {room}" for room in sorted(rooms - set(table))]
    return faults


def test_includes_are_those_of_the_table():
    files = tracked()
    folders = [name.removesuffix("/README.md") for name in files
               if name.endswith("/README.md") and TABLE.search((ROOT / name).read_text())]
    check({"compiler", "server"} <= set(folders), f"tables of rooms: {folders}")
    for folder in folders:
        table = table_of((ROOT / folder / "README.md").read_text())
        rooms = {room_in(ROOT, folder, name) for name in files if OF_PRODUCT.match(name) and name.startswith(folder + "/")}
        check_equal(table_faults(folder, table, arrows_of_table(ROOT, files, folder), rooms - {None, "."}), [], f"rooms of {folder}")


def test_deciding_and_applying_use_the_analysis_alone():
    found = arrows(ROOT, tracked())
    sides = ("decide", "apply")
    for side in sides:
        check(any(arrow[:2] == ("compiler/backends/cpu", side) for arrow in found), f"compiler/backends/cpu/{side} includes no room")
    check_equal([include for (of, a, b), include in found.items() if of == "compiler/backends/cpu" and {a, b} == set(sides)],
                [], "includes between the sides of a schedule")


def test_a_difference_from_the_table_is_found():
    rooms = {"a", "b", "c"}
    found = {("compiler", "a", "b"): "a includes b", ("compiler", "b", "a"): "b includes a"}
    table = table_of("```rooms\na -> b\nb -> a\n```\n")
    check_equal(table_faults("compiler", table, found, rooms),
                ["compiler: b may not include a, which does not stand below it", "compiler: the table lacks c"], "upward")
    table = table_of("```rooms\na -> c\nb ->\nc ->\n```\n")
    check_equal(table_faults("compiler", table, found, rooms),
                ["compiler: not in the table: a includes b", "compiler: not in the table: b includes a",
                 "compiler: a includes nothing of c"], "other includes")


def test_a_folders_own_files_are_rooms():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        texts = {"server/base.h": "", "server/top.h": "", "server/top.cpp": '#include "server/a/one.h"\n#include "server/top.h"\n',
                 "server/a/one.h": '#include "server/base.h"\n', "server/b/two.h": '#include "server/top.h"\n',
                 "server/main.cpp": '#include "server/b/two.h"\n'}
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = arrows_of_table(root, texts, "server")
        check_equal(sorted(found), [("server", "a", "."), ("server", "b", "top"), ("server", "top", "a")], "arrows")
        rooms = {"a", "b", "top"}
        check_equal(table_faults("server", table_of("```rooms\nb -> top\ntop -> a\na -> .\n. ->\n```\n"), found, rooms), [], "table")
        check_equal(table_faults("server", table_of("```rooms\nb ->\na ->\n```\n"), found, rooms),
                    ["server: not in the table: server/a/one.h includes server/base.h",
                     "server: not in the table: server/b/two.h includes server/top.h",
                     "server: not in the table: server/top.cpp includes server/a/one.h",
                     "server: the table lacks top"], "without the own files")
