"""One checkout finds in ccache what another compiled with a precompiled header (deploy/cmake/compile), and nothing else."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from checks import check_equal

COMPILE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "cmake" / "compile"


class Checkout:
    """One source with a header that CMake has precompiled, compiled with CMake's commands."""

    def __init__(self, folder, text="inline int one() { return 1; }\n"):
        self.root, self.build = folder, folder / "build"
        (self.build / "pch").mkdir(parents=True)
        (folder / "text.h").write_text(f"#pragma once\n{text}")
        (folder / "source.cpp").write_text("int two() { return 2 * one(); }\n")
        (self.build / "pch" / "cmake_pch.hxx").write_text("#include <text.h>\n")
        (self.build / "pch" / "cmake_pch.hxx.cxx").write_text("")

    def clang(self, *arguments):
        pch = f"{self.build}/pch/cmake_pch.hxx"
        environment = {**os.environ, "CCACHE_DIR": str(self.root.parent / "ccache"), "CCACHE_BASEDIR": str(self.root),
                       "CCACHE_NOHASHDIR": "1", "CCACHE_PCH_EXTSUM": "1", "CCACHE_SLOPPINESS": "pch_defines,time_macros"}
        subprocess.run([COMPILE, "ccache", "clang++-22", "-g1", f"-I{self.root}",
                        *[word.replace("PCH", pch) for word in arguments]], cwd=self.build, env=environment, check=True)

    def compile(self):
        """Whether ccache had the result."""
        self.clang("-Xclang", "-emit-pch", "-Xclang", "-fno-pch-timestamp", "-Xclang", "-include", "-Xclang", "PCH", "-x",
                   "c++-header", "-MD", "-MT", "pch/cmake_pch.hxx.pch", "-MF", "pch/cmake_pch.hxx.pch.d", "-o",
                   "pch/cmake_pch.hxx.pch", "-c", "PCH.cxx")
        before = self.hits()
        self.clang("-Xclang", "-include-pch", "-Xclang", "PCH.pch", "-Xclang", "-include", "-Xclang", "PCH", "-MD", "-MT",
                   "source.o", "-MF", "source.o.d", "-o", "source.o", "-c", f"{self.root}/source.cpp")
        return self.hits() > before

    def hits(self):
        printed = subprocess.run(["ccache", "--print-stats"], capture_output=True, text=True, check=True,
                                 env={**os.environ, "CCACHE_DIR": str(self.root.parent / "ccache")}).stdout
        counts = dict(line.split("\t") for line in printed.splitlines())
        return int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])


def test_checkouts_share():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_equal(Checkout(folder / "first").compile(), False, "the first checkout finds")
        check_equal(Checkout(folder / "another").compile(), True, "another checkout finds")


def test_another_text_is_compiled():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        Checkout(folder / "first").compile()
        changed = Checkout(folder / "changed", "inline int one() { return 3; }\n")
        check_equal(changed.compile(), False, "a checkout with another header finds")
        sums = [(folder / each / "build/pch/cmake_pch.hxx.pch.sum").read_text() for each in ("first", "changed")]
        check_equal(sums[0] == sums[1], False, "equal sums")


def test_a_checkout_that_is_gone_is_not_asked():
    with tempfile.TemporaryDirectory() as name:
        folder, place = pathlib.Path(name), pathlib.Path(name) / "checkout"
        (folder / "gone").mkdir()
        place.symlink_to("gone")
        Checkout(place).compile()
        shutil.rmtree(folder / "gone")
        place.unlink()
        (folder / "later").mkdir()
        place.symlink_to("later")  # under the same name
        later = Checkout(place)
        (later.root / "source.cpp").write_text("int three() { return 3 * one(); }\n")  # whose result the cache lacks
        check_equal(later.compile(), False, "a later checkout finds")
