// CLI11 for the programs' flags. It is a library of headers that each file compiles anew, for longer than the rest of
// the file takes: flags are read once, so its functions are compiled without optimization.
#pragma once

#pragma clang optimize off
#include <CLI/CLI.hpp>
#pragma clang optimize on
