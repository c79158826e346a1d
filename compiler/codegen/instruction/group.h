#pragma once

#include "compiler/target/dot_product.h"

namespace tessera::compiler::codegen {

/// What the body of a statement over groups of elements computes: `first` and `second` are its two inputs, whose
/// elements of 32 bits are groups of four of 8 bits or, in floats, of two of bf16.
struct GroupedProduct {
  DotProduct instruction;
  int group = 4;
  bool first_signed = false, second_signed = false;  ///< how elements are extended, once
  uint8_t first_flipped = 0, second_flipped = 0;     ///< these bits of each element are turned
};

}  // namespace tessera::compiler::codegen
