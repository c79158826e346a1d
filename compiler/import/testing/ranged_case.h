#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/import/testing/model_builder.h"

namespace tessera::compiler {

constexpr int64_t kMost = 5;  ///< greatest size of the range

struct RangedInput {
  std::string name;
  std::vector<int64_t> shape;  ///< -1: the range
  bool indices = false;        ///< the elements are indices: i64 from 0 to 2; otherwise f32
  bool infinite = false;       ///< every element outside of the padding is infinite
};

struct RangedCase {
  std::string name;
  std::vector<RangedInput> inputs;
  std::vector<std::string> outputs;
  std::function<void(ModelBuilder&)> nodes;
  int64_t opset = 17;
};

/// Returns distinct numbers below 1/2.
std::vector<float> weights(int64_t count);

/// Expects that the model with a range gives, at several sizes, the results of the same model imported for exactly that
/// size, with NaN and out-of-range indices in all padding.
void expectEqualToExactSize(const RangedCase& test);
/// Expects that import refuses the range with UNSUPPORTED_OPERATOR.
void expectRefused(const RangedCase& test);

}  // namespace tessera::compiler
