"""lit tests of compiler passes. A test's path mirrors the folder it tests: tests/lit/compiler/graph/x.mlir."""

import os

import lit.formats

config.name = "tessera"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
build = lit_config.params["build"]
config.test_exec_root = os.path.join(build, "lit")
# FileCheck and not come from LLVM, our own tools from the build.
config.environment["PATH"] = os.pathsep.join([os.path.join(build, "bin"), "/usr/lib/llvm-22/bin", os.environ["PATH"]])
config.substitutions.append(("%python", "/usr/bin/python3"))
config.excludes = ["Inputs"]
