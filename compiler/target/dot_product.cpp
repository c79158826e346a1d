#include "compiler/target/dot_product.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

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

/// Some of an intrinsic's iterations, slowest first.
struct Iterations {
  std::vector<const v1::Intrinsic::IterDim*> dims;

  int64_t extent() const {
    int64_t product = 1;
    for (const v1::Intrinsic::IterDim* dim : dims) product *= dim->extent();
    return product;
  }
  bool contains(const std::string& name) const {
    return std::ranges::any_of(dims, [&](const auto* dim) { return dim->name() == name; });
  }
};

constexpr int64_t kMaxRegisterBits = 2048;

/// The iterations that subscript the operand, slowest first; nothing unless each subscript is the name of another
/// iteration and the operand fits a register.
std::optional<Iterations> registerOf(const v1::Intrinsic& intrinsic, const v1::Intrinsic::Operand& operand, int bits) {
  Iterations found;
  int64_t elements = 1;
  for (const std::string& subscript : operand.subscripts()) {
    const auto dim = std::ranges::find_if(intrinsic.iterations(),
                                          [&](const auto& iteration) { return iteration.name() == subscript; });
    if (dim == intrinsic.iterations().end() || found.contains(subscript)) return std::nullopt;
    if (dim->extent() < 1 || dim->extent() > kMaxRegisterBits / bits / elements) return std::nullopt;
    elements *= dim->extent();
    found.dims.push_back(&*dim);
  }
  return found;
}

/// The position of each element of a register among the iterations `wanted`, the slowest one first. Requires that
/// `stored` contains them all.
std::vector<int> positionsIn(const Iterations& stored, const Iterations& wanted) {
  std::vector<int> positions;
  for (int64_t element = 0; element < stored.extent(); ++element) {
    int64_t position = 0;
    for (const v1::Intrinsic::IterDim* dim : wanted.dims) {
      int64_t inner = 1;  // elements of the register for each iteration of `dim`
      for (auto at = stored.dims.rbegin(); *at != dim; ++at) inner *= (*at)->extent();
      position = position * dim->extent() + element / inner % dim->extent();
    }
    positions.push_back(static_cast<int>(position));
  }
  return positions;
}

/// The registers of the sum and of both sources, as lists of iterations.
struct Registers {
  Iterations sum, row_source, column_source;
};

DotProduct::Placement placementOf(const Registers& registers, const Iterations& depth) {
  Iterations rows, columns;
  for (const v1::Intrinsic::IterDim* dim : registers.sum.dims)
    (registers.column_source.contains(dim->name()) ? columns : rows).dims.push_back(dim);
  const auto followedBy = [](Iterations first, const Iterations& second) {
    first.dims.insert(first.dims.end(), second.dims.begin(), second.dims.end());
    return first;
  };
  return {.rows = static_cast<int>(rows.extent()),
          .columns = static_cast<int>(columns.extent()),
          .sums = positionsIn(registers.sum, followedBy(rows, columns)),
          .row_source = positionsIn(registers.row_source, followedBy(rows, depth)),
          .column_source = positionsIn(registers.column_source, followedBy(columns, depth))};
}

std::optional<DotProduct> dotProductOf(const v1::Intrinsic& intrinsic) {
  const v1::Intrinsic::Emission::Form form = intrinsic.emission().form();
  const v1::Intrinsic::Arithmetic& arithmetic = intrinsic.arithmetic();
  const auto isInRegisters = [](const v1::Intrinsic::Operand& operand) {
    return operand.memory().empty() || operand.memory() == "registers";
  };
  if (!intrinsic.emit().starts_with("llvm.") || intrinsic.operands_size() != 3 || !intrinsic.bounds().empty() ||
      intrinsic.has_threads() || !std::ranges::all_of(intrinsic.operands(), isInRegisters) ||
      (form != v1::Intrinsic::Emission::FORM_UNSPECIFIED && form != v1::Intrinsic::Emission::LLVM_INTRINSIC))
    return std::nullopt;
  const bool accumulates = arithmetic.form() != v1::Intrinsic::Arithmetic::MULTIPLY;
  // The sum is exact: no saturation anywhere, and 32 bits for each sum and each intermediate result.
  if ((accumulates && arithmetic.form() != v1::Intrinsic::Arithmetic::MULTIPLY_ADD &&
       arithmetic.form() != v1::Intrinsic::Arithmetic::FORM_UNSPECIFIED) ||
      arithmetic.overflow() == v1::Intrinsic::Arithmetic::SATURATE ||
      arithmetic.intermediate_overflow() == v1::Intrinsic::Arithmetic::SATURATE)
    return std::nullopt;
  const v1::Intrinsic::Operand &sum = intrinsic.operands(0), &first = intrinsic.operands(1),
                               &second = intrinsic.operands(2);
  const auto a = widthOf(first.dtype()), b = widthOf(second.dtype());
  if (!a || !b || a->bits != b->bits || a->floating != b->floating) return std::nullopt;
  const v1::DataType whole = a->floating ? v1::DATA_TYPE_F32 : v1::DATA_TYPE_I32;
  if (sum.dtype() != whole ||
      (arithmetic.intermediate() != v1::DATA_TYPE_UNSPECIFIED && arithmetic.intermediate() != whole))
    return std::nullopt;
  const auto sums = registerOf(intrinsic, sum, 32), firsts = registerOf(intrinsic, first, a->bits),
             seconds = registerOf(intrinsic, second, b->bits);
  if (!sums || !firsts || !seconds || sums->extent() < 2 || firsts->extent() * a->bits != sums->extent() * 32 ||
      seconds->extent() * b->bits != sums->extent() * 32)
    return std::nullopt;
  Iterations depth;
  for (const v1::Intrinsic::IterDim& dim : intrinsic.iterations()) {
    const bool in_first = firsts->contains(dim.name()), in_second = seconds->contains(dim.name());
    // Each sum adds up products of elements of both sources, and each iteration selects a sum or a product.
    if (dim.reduction() == sums->contains(dim.name()) ||
        (dim.reduction() ? !in_first || !in_second : !in_first && !in_second))
      return std::nullopt;
    if (dim.reduction()) depth.dims.push_back(&dim);
  }
  const int group = 32 / a->bits;
  if (depth.dims.empty() || depth.extent() % group != 0) return std::nullopt;
  auto operands = operandsOf(intrinsic, accumulates);
  if (!operands) return std::nullopt;
  return DotProduct{
      .name = intrinsic.name(),
      .emit = intrinsic.emit(),
      .operands = std::move(*operands),
      .lanes = static_cast<int>(sums->extent()),
      .group = group,
      .depth = static_cast<int>(depth.extent()),
      .bits = a->bits,
      .first_signed = a->is_signed,
      .second_signed = b->is_signed,
      .floating = a->floating,
      .accumulates = accumulates,
      .cycles = intrinsic.cycles_per_issue(),
      .placements = {placementOf({*sums, *firsts, *seconds}, depth), placementOf({*sums, *seconds, *firsts}, depth)}};
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

bool DotProduct::isByLane() const {
  const auto counts = [](const std::vector<int>& positions) {
    for (size_t i = 0; i < positions.size(); ++i)
      if (positions[i] != static_cast<int>(i)) return false;
    return true;
  };
  const Placement& placement = placements[0];
  return placement.rows == 1 && depth == group && counts(placement.sums) && counts(placement.column_source) &&
         placement.row_source == placements[1].row_source && counts(placements[1].column_source);
}

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
      return dot.isByLane() && dot.bits == 16 && !dot.floating && dot.first_signed && dot.second_signed &&
             dot.lanes == pairs->sums.lanes;
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
