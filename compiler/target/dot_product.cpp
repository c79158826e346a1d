#include "compiler/target/dot_product.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "compiler/target/instruction_sets.h"
#include "compiler/target/tile_product.h"

namespace tessera::compiler {
namespace {

struct Width {
  int bits = 0;
  bool is_signed = false;
  bool floating = false;
};

std::optional<Width> widthOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_I8:
      return Width{8, true};
    case v1::DATA_TYPE_U8:
      return Width{8, false};
    case v1::DATA_TYPE_I16:
      return Width{16, true};
    case v1::DATA_TYPE_U16:
      return Width{16, false};
    case v1::DATA_TYPE_BF16:
      return Width{16, false, true};
    default:
      return std::nullopt;
  }
}

bool subscripts(const v1::Intrinsic::Operand& operand, std::initializer_list<const std::string*> names) {
  return std::equal(operand.subscripts().begin(), operand.subscripts().end(), names.begin(), names.end(),
                    [](const std::string& a, const std::string* b) { return a == *b; });
}

/// The intrinsic's operands as positions in the description; by default the sum (if the instruction accumulates) and
/// both sources.
std::optional<std::vector<int>> operandsOf(const v1::Intrinsic& intrinsic, bool accumulates) {
  if (intrinsic.emission().arguments().empty()) return accumulates ? std::vector<int>{0, 1, 2} : std::vector<int>{1, 2};
  std::vector<int> order;
  for (const v1::Intrinsic::Argument& argument : intrinsic.emission().arguments()) {
    const auto found =
        std::find_if(intrinsic.operands().begin(), intrinsic.operands().end(),
                     [&](const v1::Intrinsic::Operand& operand) { return operand.name() == argument.operand(); });
    if (!argument.literal().empty() || found == intrinsic.operands().end()) return std::nullopt;
    order.push_back(static_cast<int>(found - intrinsic.operands().begin()));
  }
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != (accumulates ? std::vector<int>{0, 1, 2} : std::vector<int>{1, 2})) return std::nullopt;
  return order;
}

std::optional<DotProduct> dotProductOf(const v1::Intrinsic& intrinsic) {
  const v1::Intrinsic::Emission::Form form = intrinsic.emission().form();
  const v1::Intrinsic::Arithmetic& arithmetic = intrinsic.arithmetic();
  if (!intrinsic.emit().starts_with("llvm.") || intrinsic.iterations_size() != 2 || intrinsic.operands_size() != 3 ||
      !intrinsic.bounds().empty() ||
      (form != v1::Intrinsic::Emission::FORM_UNSPECIFIED && form != v1::Intrinsic::Emission::LLVM_INTRINSIC))
    return std::nullopt;
  const bool accumulates = arithmetic.form() != v1::Intrinsic::Arithmetic::MULTIPLY;
  if ((accumulates && arithmetic.form() != v1::Intrinsic::Arithmetic::MULTIPLY_ADD &&
       arithmetic.form() != v1::Intrinsic::Arithmetic::FORM_UNSPECIFIED) ||
      arithmetic.overflow() == v1::Intrinsic::Arithmetic::SATURATE ||
      arithmetic.intermediate_overflow() == v1::Intrinsic::Arithmetic::SATURATE)
    return std::nullopt;
  const v1::Intrinsic::IterDim &lane = intrinsic.iterations(0), &within = intrinsic.iterations(1);
  // sum[lane] += first[lane, within] * second[lane, within], exact: no saturation anywhere, 32 bits for each group.
  if (lane.reduction() || !within.reduction() || lane.extent() < 2) return std::nullopt;
  const v1::Intrinsic::Operand &sum = intrinsic.operands(0), &first = intrinsic.operands(1),
                               &second = intrinsic.operands(2);
  const auto a = widthOf(first.dtype()), b = widthOf(second.dtype());
  if (!a || !b || a->bits != b->bits || a->floating != b->floating || within.extent() * a->bits != 32)
    return std::nullopt;
  const v1::DataType whole = a->floating ? v1::DATA_TYPE_F32 : v1::DATA_TYPE_I32;
  if (sum.dtype() != whole || !subscripts(sum, {&lane.name()}) ||
      (arithmetic.intermediate() != v1::DATA_TYPE_UNSPECIFIED && arithmetic.intermediate() != whole))
    return std::nullopt;
  for (const v1::Intrinsic::Operand* operand : {&first, &second})
    if (!subscripts(*operand, {&lane.name(), &within.name()})) return std::nullopt;
  auto operands = operandsOf(intrinsic, accumulates);
  if (!operands) return std::nullopt;
  return DotProduct{.name = intrinsic.name(),
                    .emit = intrinsic.emit(),
                    .operands = std::move(*operands),
                    .lanes = static_cast<int>(lane.extent()),
                    .group = static_cast<int>(within.extent()),
                    .bits = a->bits,
                    .first_signed = a->is_signed,
                    .second_signed = b->is_signed,
                    .floating = a->floating,
                    .accumulates = accumulates};
}

std::optional<PairProduct> pairProductOf(const v1::Intrinsic& intrinsic) {
  const v1::Intrinsic::Emission::Form form = intrinsic.emission().form();
  if (!intrinsic.emit().starts_with("llvm.") || intrinsic.iterations_size() != 2 || intrinsic.operands_size() != 3 ||
      !intrinsic.bounds().empty() ||
      (form != v1::Intrinsic::Emission::FORM_UNSPECIFIED && form != v1::Intrinsic::Emission::LLVM_INTRINSIC) ||
      intrinsic.arithmetic().form() != v1::Intrinsic::Arithmetic::MULTIPLY)
    return std::nullopt;
  const v1::Intrinsic::IterDim &lane = intrinsic.iterations(0), &within = intrinsic.iterations(1);
  const v1::Intrinsic::Operand &sum = intrinsic.operands(0), &first = intrinsic.operands(1),
                               &second = intrinsic.operands(2);
  if (lane.reduction() || !within.reduction() || within.extent() != 2 || sum.dtype() != v1::DATA_TYPE_I16 ||
      first.dtype() != v1::DATA_TYPE_U8 || second.dtype() != v1::DATA_TYPE_I8 || !subscripts(sum, {&lane.name()}))
    return std::nullopt;
  for (const v1::Intrinsic::Operand* operand : {&first, &second})
    if (!subscripts(*operand, {&lane.name(), &within.name()})) return std::nullopt;
  auto operands = operandsOf(intrinsic, /*accumulates=*/false);
  if (!operands) return std::nullopt;
  PairProduct pairs{.name = intrinsic.name(), .emit = intrinsic.emit(), .operands = std::move(*operands), .sums = {}};
  // Its sums of 16 bits are added up by an instruction for pairs of 16 bits, found by pairProducts().
  pairs.sums.lanes = static_cast<int>(lane.extent()) / 2;
  return pairs;
}

/// The features that an LLVM intrinsic needs according to the described instructions; a chip may list the instruction
/// without them.
google::protobuf::RepeatedPtrField<std::string> featuresOfEmission(const std::string& emit) {
  for (const v1::InstructionSet& set : builtinInstructionSets())
    for (const v1::Intrinsic& each : set.intrinsics())
      if (each.emit() == emit) return each.features();
  return {};
}

}  // namespace

std::vector<DotProduct> dotProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics) {
  std::vector<DotProduct> found;
  for (const v1::Intrinsic& intrinsic : intrinsics)
    if (auto dot = dotProductOf(intrinsic)) found.push_back(std::move(*dot));
  std::sort(found.begin(), found.end(), [](const DotProduct& a, const DotProduct& b) {
    // Most work per instruction first; the name makes the order total.
    return std::tuple(-a.products(), a.bits, a.name) < std::tuple(-b.products(), b.bits, b.name);
  });
  return found;
}

std::vector<PairProduct> pairProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics) {
  std::vector<PairProduct> found;
  const std::vector<DotProduct> dots = dotProducts(intrinsics);
  for (const v1::Intrinsic& intrinsic : intrinsics) {
    auto pairs = pairProductOf(intrinsic);
    if (!pairs) continue;
    const auto sums = std::find_if(dots.begin(), dots.end(), [&](const DotProduct& dot) {
      return dot.bits == 16 && !dot.floating && dot.first_signed && dot.second_signed && dot.lanes == pairs->sums.lanes;
    });
    if (sums == dots.end()) continue;
    pairs->sums = *sums;
    found.push_back(std::move(*pairs));
  }
  return found;
}

int dotProductGroup(const std::vector<DotProduct>& products, int bits) {
  const bool floating = bits == 16;
  return std::any_of(products.begin(), products.end(),
                     [&](const DotProduct& each) { return each.floating == floating; })
             ? 32 / bits
             : 0;
}

bool isMultiplyAdd(const v1::Intrinsic& intrinsic) {
  if (!intrinsic.emit().starts_with("llvm.fma.") || intrinsic.iterations_size() != 1 ||
      intrinsic.iterations(0).reduction() || intrinsic.operands_size() != 3)
    return false;
  return std::all_of(intrinsic.operands().begin(), intrinsic.operands().end(), [&](const auto& operand) {
    return operand.dtype() == v1::DATA_TYPE_F32 && subscripts(operand, {&intrinsic.iterations(0).name()});
  });
}

google::protobuf::RepeatedPtrField<v1::Intrinsic> usableInstructions(const v1::Target& target) {
  google::protobuf::RepeatedPtrField<v1::Intrinsic> usable;
  for (v1::Intrinsic& each : instructionsOf(target)) {
    if (!dotProductOf(each) && !isMultiplyAdd(each) && !isTileProduct(each) && !pairProductOf(each)) continue;
    if (each.features().empty()) *each.mutable_features() = featuresOfEmission(each.emit());
    if (featuresToCheckAtRunTime(target, each).empty()) *usable.Add() = std::move(each);
  }
  return usable;
}

}  // namespace tessera::compiler
