#include <array>
#include <iterator>

#include "compiler/backends/cpu/instruction/grouped_product.h"
#include "compiler/backends/cpu/instruction/matrix_product.h"
#include "compiler/backends/cpu/instruction/tile_instruction.h"

namespace tessera::compiler::codegen {
namespace {

/// All kinds of instructions.
constexpr std::array kKinds = {tileInstructions, groupedProducts, matrixProducts, saturatingPairProducts};

}  // namespace

std::vector<ProductInstructions> kindsOfProductInstructions(const Chip& chip) {
  std::vector<ProductInstructions> kinds;
  for (const auto kind : kKinds)
    if (ProductInstructions instructions = kind(chip); !instructions.empty()) kinds.push_back(std::move(instructions));
  return kinds;
}

ProductInstructions productInstructions(const Chip& chip) {
  ProductInstructions all;
  for (ProductInstructions& kind : kindsOfProductInstructions(chip))
    all.insert(all.end(), std::move_iterator(kind.begin()), std::move_iterator(kind.end()));
  return all;
}

}  // namespace tessera::compiler::codegen
