#pragma once

#include "compiler/backends/cpu/testing/chain_text.h"

namespace tessera::compiler::codegen::testing {

/// f32 bodies for WorkloadText::generic: a bias and max(x, 0); a sum of an element times an entry of each of two
/// matrices.
inline constexpr char kBiasRelu[] =
    "%z = arith.constant 0.0 : f32\n    %s = arith.addf %i0, %i1 : f32\n    %r = arith.maximumf %s, %z : f32";
inline constexpr char kTransformBody[] =
    "%a = arith.mulf %i0, %i1 : f32\n    %m = arith.mulf %a, %i2 : f32\n    %r = arith.addf %o, %m : f32";

/// A 3x3 convolution in Winograd's domain with blocked channels: `down` x `across` blocks of `results` x `results`
/// each.
struct WinogradText {
  int64_t results, inputs, outputs;  ///< side of a block of the result; blocks of channels
  int64_t down, across, block;

  int64_t side() const { return results + 2; }
  std::vector<int64_t> input() const { return {inputs, down * results + 2, across * results + 2, block}; }
  std::vector<int64_t> filters() const { return {side(), side(), outputs, inputs, block, block}; }
  std::vector<int64_t> bias() const { return {outputs, block}; }
  std::vector<int64_t> result() const { return {outputs, down * results, across * results, block}; }

  /// Writes the stages that graph/winograd creates, then bias and ReLU. Arguments: input, filters, bias. `to_input` has
  /// side x side entries, `to_output` results x side.
  Tensor write(WorkloadText& text, const Tensor& to_input, const Tensor& to_output) const;
};

}  // namespace tessera::compiler::codegen::testing
