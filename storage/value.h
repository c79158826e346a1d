#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace tessera::storage {

/// A column's value or a statement's parameter.
using Value = std::variant<int64_t, double, std::string>;

}  // namespace tessera::storage
