#pragma once

namespace tessera::compiler {

/// On an operation that widens weights of which several lie in a byte: computing it ahead would store them eight times
/// as large, so it stays what it is (graph/constants).
inline constexpr const char* kStoredPacked = "tessera.stored_packed";

}  // namespace tessera::compiler
