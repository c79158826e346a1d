#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace tessera::storage {

/// The value of a column or a statement parameter.
using Value = std::variant<int64_t, double, std::string>;

}  // namespace tessera::storage
