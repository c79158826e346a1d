#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::compiler {

/// The distances in the outer memory of a transfer, in elements, between the elements along one subscript. "4:1,free"
/// means: four elements at distance 1, then groups of four at a distance that the compiler chooses ("free"). An example
/// are the rows of b in AMX, where four neighbours along the reduction are adjacent.
struct Stride {
  struct Part {
    int64_t extent = 1;  ///< elements along the subscript
    int64_t stride = 0;  ///< between them
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> inner;  ///< fastest first
  int64_t outer = 0;        ///< distance after the elements of `inner`; kFree: chosen by the compiler
  static constexpr int64_t kFree = -1;

  bool operator==(const Stride&) const = default;
};

/// "free", "16", "4:1,free". Fails with INVALID_ARGUMENT naming the accepted syntax.
absl::StatusOr<Stride> parseStride(const std::string& text);

}  // namespace tessera::compiler
