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
  bool infinite = false;       ///< every element that counts
};

struct RangedCase {
  std::string name;
  std::vector<RangedInput> inputs;
  std::vector<std::string> outputs;
  std::function<void(ModelBuilder&)> nodes;
  int64_t opset = 17;
};

/// Numbers that differ, below 1/2.
std::vector<float> weights(int64_t count);

/// Expects of sizes of the range what the same model gives that was imported for the very size, with NaN and wild
/// places wherever nothing counts.
void expectSameAsAtTheVerySize(const RangedCase& test);
/// Expects that import refuses the range, by UNSUPPORTED_OPERATOR.
void expectRefused(const RangedCase& test);

}  // namespace tessera::compiler
