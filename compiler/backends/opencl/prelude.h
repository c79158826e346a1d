#pragma once

#include <string>
#include <string_view>

namespace tessera::compiler::opencl {

/// The text before the functions of a program: pragmas, and those helper functions ("t_...") that `source` calls.
std::string preludeOf(std::string_view source);

}  // namespace tessera::compiler::opencl
