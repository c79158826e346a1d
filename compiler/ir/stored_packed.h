#pragma once

namespace tessera::compiler {

/// Attribute of an operation that unpacks weights of less than a byte. Constant folding must not evaluate it, since the
/// result is up to eight times as large (graph/constants).
inline constexpr const char* kStoredPacked = "tessera.stored_packed";

}  // namespace tessera::compiler
