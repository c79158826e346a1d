#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/import/testing/model_builder.h"

namespace tessera::compiler {

constexpr int64_t kMost = 5;  ///< of the range

struct RangedInput {
  std::string name;
  std::vector<int64_t> shape;  ///< -1: the range
  bool places = false;         ///< i64, 0 to 2
  bool infinite = false;       ///< every used element
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
