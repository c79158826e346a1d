// CLI11 for command-line flags. It is header-only, and compiling it takes longer than the rest of each including file.
// Flags are parsed once per process, so its functions are compiled without optimization.
#pragma once

#pragma clang optimize off
#include <CLI/CLI.hpp>
#pragma clang optimize on
