#pragma once

#include <optional>
#include <utility>

#include "compiler/codegen/nest.h"

/// Products of narrow elements counted in groups: four neighbours of 8 bits, or two of 16 bits (integers or bf16), are
/// one element of 32 bits to everything that tiles, packs, blocks and fetches.
namespace tessera::compiler::codegen {

/// How a body reads one of its arguments: with every bit of `flipped` turned, then extended.
struct Reading {
  int argument = -1;
  bool is_signed = false;
  uint8_t flipped = 0;
  bool floating = false;                   ///< bf16
  int bits = 8;                            ///< of an element
  int group() const { return 32 / bits; }  ///< elements in a sum's 32 bits
};

/// Both readings of a body sum + x * y in 32 bits, x first; nothing for another body.
std::optional<std::pair<Reading, Reading>> readingsOf(const Statement& statement);

/// A reduction that both operands walk element by element, in whole groups; everything else they walk by groups. The
/// longest of several.
std::optional<int> groupedLoop(const Nest& nest, int group);

/// Makes groups the elements of the first statement's inputs, which `first` and `second` read, in that order from then
/// on; `loop` counts groups, or is gone where there is one and other loops sum. The body computes one step.
void countInGroups(mlir::OpBuilder& builder, Nest& nest, int loop, const Reading& first, const Reading& second);

}  // namespace tessera::compiler::codegen
