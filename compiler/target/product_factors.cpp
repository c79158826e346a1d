#include "compiler/target/product_factors.h"

#include <algorithm>

#include "compiler/target/instruction_sets.h"

namespace tessera::compiler {

std::vector<ProductFactors> productFactors(const v1::Target& target) {
  std::vector<ProductFactors> found;
  for (const v1::Intrinsic& each : instructionsOf(target)) {
    if (each.arithmetic().form() != v1::Intrinsic::Arithmetic::MULTIPLY_ADD || each.operands_size() != 3) continue;
    const ProductFactors factors{
        .first = each.operands(1).dtype(), .second = each.operands(2).dtype(), .sum = each.operands(0).dtype()};
    if (std::ranges::find(found, factors) == found.end()) found.push_back(factors);
  }
  return found;
}

v1::DataType roundedFactors(const v1::Target& target) {
  const std::vector<ProductFactors> all = productFactors(target);
  const auto multiplies = [&](v1::DataType type) {
    return std::ranges::find(all, ProductFactors{.first = type, .second = type, .sum = v1::DATA_TYPE_F32}) != all.end();
  };
  if (multiplies(v1::DATA_TYPE_F32)) return v1::DATA_TYPE_UNSPECIFIED;
  for (v1::DataType type : {v1::DATA_TYPE_F16, v1::DATA_TYPE_BF16})
    if (multiplies(type)) return type;
  return v1::DATA_TYPE_UNSPECIFIED;
}

}  // namespace tessera::compiler
