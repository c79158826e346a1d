#pragma once

#include <string_view>

/// Variants of leaves of described chips (v1::Kernel.variant).
namespace tessera::compiler::words {

/// Instruction calls; a nest on a vector unit; a fill without code, from whose value the next call on the same buffer
/// starts.
inline constexpr std::string_view kCall = "call", kVector = "vector", kInitial = "initial";

}  // namespace tessera::compiler::words
