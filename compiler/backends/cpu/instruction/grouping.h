#pragma once

#include <optional>
#include <utility>

#include "compiler/backends/cpu/nest.h"

/// Products of narrow elements counted in groups: four neighbours of 8 bits, or two of 16 bits (integers or bf16), are
/// one 32-bit element for tiling, packing, blocking and prefetching.
namespace tessera::compiler::codegen {

/// How a body reads one of its arguments: XORs it with `flipped`, then extends it.
struct Reading {
  int argument = -1;
  bool is_signed = false;
  uint8_t flipped = 0;
  bool floating = false;                   ///< bf16
  int bits = 8;                            ///< of an element
  int group() const { return 32 / bits; }  ///< elements in a sum's 32 bits
};

/// The two operands of a body sum + x * y in 32 bits, x first; nothing for any other body.
std::optional<std::pair<Reading, Reading>> operandReadsOf(const Statement& statement);

/// A reduction loop that both operands walk element by element, in whole groups, while they walk every other loop in
/// multiples of a group. If there are several, the longest.
std::optional<int> groupedLoop(const Nest& nest, int group);

/// Makes groups the elements of the first statement's two inputs, which `first` and `second` read, and puts the inputs
/// in that order. `loop` then counts groups; it is removed if there is only one group and other reduction loops remain.
/// The new body computes one step.
void groupElements(mlir::OpBuilder& builder, Nest& nest, int loop, const Reading& first, const Reading& second);

}  // namespace tessera::compiler::codegen
