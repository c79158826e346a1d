#pragma once

#include <vector>

#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

/// What planning must know of the code that runs a plan. The defaults describe vector code of a processor.
struct CodeFacts {
  /// Whether products run on tiles of vector registers, for which layouts, panels, interleaved operands, Winograd's
  /// domain, split sums and short bodies pay.
  bool register_tiles = true;
  bool slices = true;            ///< whether fused groups can run slice by slice
  bool prepares_weights = true;  ///< whether the first run may compute weights
  bool ranges = true;            ///< whether a dimension may be a range whose size each run chooses
  /// The type of the factors that the chip's instructions multiply for f32 sums, where none multiplies f32: products of
  /// f32 read operands rounded to it. Unspecified: no rounding.
  v1::DataType factors = v1::DATA_TYPE_UNSPECIFIED;
  /// Whether instructions for blocks multiply 8-bit factors for 32-bit sums, and with which signs.
  struct ByteFactors {
    bool first_signed = false, second_signed = false;
  };
  std::vector<ByteFactors> bytes = {};
};

}  // namespace tessera::compiler
