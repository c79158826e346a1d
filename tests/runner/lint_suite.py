"""Lint fails on findings, reports files that it had no time for, and rechecks only what changed."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest.mock

import pytest

import clang_tidy
from checks import check, check_equal

CLEAN = {"shared.h": "inline int* empty() { return nullptr; }\n",
         "one.cpp": '#include "shared.h"\nint* one() { return empty(); }\n',
         "two.cpp": "int* two() { return nullptr; }\n"}
BAD_HEADER = "inline int* empty() { return 0; }\n"
BAD_SOURCE = "int* two() { return 0; }\n"


class Checkout:
    """Two sources, one of them with a header, as in a Ninja build."""

    def __init__(self, folder, store, flags=""):
        self.root = pathlib.Path(folder)
        self.store = pathlib.Path(store)
        self.build = self.root / "build"
        self.build.mkdir(parents=True)
        self.write(".clang-tidy", "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\nHeaderFilterRegex: 'shared'\n")
        for name, text in CLEAN.items():
            self.write(name, text)
        commands = [{"directory": str(self.build), "file": str(self.root / f"{name}.cpp"),
                     "command": f"clang++-22 {flags} -c {self.root}/{name}.cpp -o {name}.o"} for name in ("one", "two")]
        (self.build / "compile_commands.json").write_text(json.dumps(commands))
        (self.build / "build.ninja").write_text(
            "rule compile\n  command = $call -MD -MF $out.d\n  depfile = $out.d\n  deps = gcc\n" + "".join(
                f"build {c['command'].split()[-1]}: compile {c['file']}\n  call = {c['command']}\n" for c in commands))

    def write(self, name, text):
        (self.root / name).write_text(text)

    def compile(self):
        subprocess.run(["ninja", "-C", str(self.build)], check=True, stdout=subprocess.DEVNULL)

    def lint(self, build=True, **options):
        """The output, and the outcome as (findings, linted, known, unseen)."""
        if build:
            self.compile()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            outcome = clang_tidy.run(self.root, self.build, self.build / "lint.log", ["one.cpp", "two.cpp"], 2,
                                     store=self.store, **options)
        return printed.getvalue(), (outcome.findings, outcome.linted, outcome.known, outcome.unseen)


@contextlib.contextmanager
def checkout(**options):
    with tempfile.TemporaryDirectory() as folder:
        yield Checkout(f"{folder}/a", f"{folder}/store", **options)


def test_findings_are_kept():
    with checkout() as tree:
        tree.write("two.cpp", BAD_SOURCE)
        printed, outcome = tree.lint()
        check_equal(outcome, (["two.cpp"], 2, 0, 0), "first run")
        check("two.cpp:1:21: error:" in printed, f"the finding is not named:\n{printed}")
        again, outcome = tree.lint()
        check_equal(outcome, (["two.cpp"], 0, 2, 0), "second run")
        check_equal(again, printed, "what the second run printed")


def test_changes_are_linted():
    with checkout() as tree:
        check_equal(tree.lint()[1], ([], 2, 0, 0), "first run")
        tree.write("shared.h", BAD_HEADER)
        printed, outcome = tree.lint()
        check_equal(outcome, (["one.cpp"], 1, 1, 0), "after an edit of the header")
        check_equal(printed.count("error:"), 1, "findings in the header")
        tree.write("shared.h", CLEAN["shared.h"])
        check_equal(tree.lint()[1], ([], 0, 2, 0), "after the edit was taken back")
        tree.write(".clang-tidy", (tree.root / ".clang-tidy").read_text() + "User: someone\n")
        check_equal(tree.lint()[1], ([], 2, 0, 0), "after an edit of the settings")


def test_unbuilt_changes_are_not_kept():
    """Before a build the includes of an edited file are unknown."""
    with checkout() as tree:
        tree.lint()
        later = time.time_ns() + 10**9
        os.utime(tree.root / "two.cpp", ns=(later, later))
        for _ in range(2):
            check_equal(tree.lint(build=False)[1], ([], 1, 1, 0), "a run without a build")


def test_edits_during_a_run_are_not_kept():
    with checkout() as tree, unittest.mock.patch.object(clang_tidy, "_tidy", wraps=clang_tidy._tidy) as tidy:
        def edited_first(command, root, name):
            tree.write("two.cpp", BAD_SOURCE)
            return unittest.mock.DEFAULT
        tidy.side_effect = edited_first
        tree.lint()
        tidy.side_effect = None
        tree.write("two.cpp", CLEAN["two.cpp"])
        check_equal(tree.lint()[1][:1], ([],), "the clean file after a finding in an edit of it")


def test_checkouts_share_results():
    with checkout() as tree:
        tree.write("two.cpp", BAD_SOURCE)
        tree.lint()
        other = Checkout(tree.root.parent / "another_folder", tree.store)
        other.write("two.cpp", BAD_SOURCE)
        check_equal(other.lint()[1], (["two.cpp"], 0, 2, 0), "the other checkout")


def test_time_ends():
    with checkout() as tree:
        tree.write("two.cpp", BAD_SOURCE)
        check_equal(tree.lint(until=time.monotonic())[1], ([], 0, 0, 2), "a run without time")
        check_equal(tree.lint()[1], (["two.cpp"], 2, 0, 0), "a run with time after it")


def test_crashes_are_not_kept():
    with checkout() as tree:
        for _ in range(2):
            printed, outcome = tree.lint(plugin="/nowhere.so")
            check_equal(outcome, (["one.cpp", "two.cpp"], 2, 0, 0), "a run without its plugin")
        check("nowhere.so" in printed, f"the reason is not named:\n{printed}")


def test_plugin_sees_ours():
    """The plugin leaves the source and its own headers to traverse, and nothing of a precompiled one."""
    plugin = pathlib.Path(os.environ["TESSERA_BUILD_DIR"]).resolve() / "lib" / "libtessera_lint_scope.so"
    if not plugin.exists():
        pytest.skip(f"{plugin.name} is built by tests/run --lint")
    with tempfile.TemporaryDirectory() as folder:
        flags = f"-include-pch {folder}/system.pch"
        (pathlib.Path(folder) / "system.h").write_text("inline int* theirs() { return 0; }\n")
        subprocess.run(["clang++-22", "-x", "c++-header", f"{folder}/system.h", "-o", f"{folder}/system.pch"], check=True)
        tree = Checkout(f"{folder}/a", f"{folder}/store", flags=flags)
        tree.write("shared.h", BAD_HEADER)
        tree.write("two.cpp", "namespace { int* two() { return 0; } }\nint* three() { return two(); }\n")
        settings = (tree.root / ".clang-tidy").read_text()
        tree.write(".clang-tidy", settings.replace("nullptr", "nullptr,tessera-*").replace("shared", ".*"))
        printed, outcome = tree.lint(plugin=plugin)
    check_equal(outcome, (["one.cpp", "two.cpp"], 2, 0, 0), "with the plugin")
    check_equal(printed.count("error:"), 2, f"findings in\n{printed}")
