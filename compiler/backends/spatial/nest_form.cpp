#include "compiler/backends/spatial/nest_form.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/element.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "compiler/intrinsic/nest.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::simulator {
namespace {

v1::DataType withSign(v1::DataType type, bool is_signed) {
  switch (widthOf(type)) {
    case 8:
      return is_signed ? v1::DATA_TYPE_I8 : v1::DATA_TYPE_U8;
    case 16:
      return is_signed ? v1::DATA_TYPE_I16 : v1::DATA_TYPE_U16;
    case 32:
      return is_signed ? v1::DATA_TYPE_I32 : v1::DATA_TYPE_U32;
    default:
      return type;
  }
}

/// Takes a body apart from its yield inwards.
class Recognition {
 public:
  explicit Recognition(const SpatialNest& nest) : nest_(nest) {}

  /// The factors: accesses, with the type that each has as a number.
  struct Factor {
    int access = 0;
    v1::DataType dtype = v1::DATA_TYPE_F32;
  };

  std::optional<std::vector<Factor>> run(v1::DataType& summed) {
    if (nest_.outputs != 1) return std::nullopt;
    const SpatialOperation* sum = operationOf(withoutConversion(nest_.yields[0]));
    if (sum == nullptr || (sum->name != "addf" && sum->name != "addi" && sum->name != "fma")) return std::nullopt;
    summed = sum->dtype;
    if (sum->name == "fma") {
      if (withoutConversion(sum->operands[2]) != 0) return std::nullopt;
      if (!addFactors(sum->operands[0]) || !addFactors(sum->operands[1])) return std::nullopt;
      return factors_;
    }
    for (const int old : {0, 1}) {
      factors_.clear();
      if (withoutConversion(sum->operands[static_cast<size_t>(old)]) == 0 &&
          addFactors(sum->operands[static_cast<size_t>(1 - old)]))
        return factors_;
    }
    return std::nullopt;
  }

 private:
  const SpatialOperation* operationOf(int value) const {
    const auto position = static_cast<size_t>(value);
    return position < nest_.accesses.size() ? nullptr : &nest_.body[position - nest_.accesses.size()];
  }

  static bool isConversion(const SpatialOperation& operation) {
    return operation.name == "extf" || operation.name == "truncf" || operation.name == "extsi" ||
           operation.name == "extui" || operation.name == "trunci";
  }

  /// The value before one conversion between floating-point types; integers keep their width.
  int withoutConversion(int value) const {
    const SpatialOperation* operation = operationOf(value);
    return operation != nullptr && (operation->name == "extf" || operation->name == "truncf") ? operation->operands[0]
                                                                                              : value;
  }

  /// Products are taken apart if they are computed in the sum's type or, of floating-point numbers, a narrower one;
  /// conversions only right after an access.
  bool addFactors(int value) {
    const SpatialOperation* operation = operationOf(value);
    if (operation == nullptr) {
      if (value < nest_.outputs) return false;
      const v1::DataType type = nest_.accesses[static_cast<size_t>(value)].dtype;
      factors_.push_back({value, isFloatingPoint(type) ? type : withSign(type, true)});
      return true;
    }
    if (operation->name == "mulf" || operation->name == "muli")
      return addFactors(operation->operands[0]) && addFactors(operation->operands[1]);
    if (!isConversion(*operation)) return false;
    const int inside = operation->operands[0];
    if (operation->name == "extf" && operationOf(inside) != nullptr) return addFactors(inside);
    if (operationOf(inside) != nullptr || inside < nest_.outputs || operation->name == "truncf" ||
        operation->name == "trunci")
      return false;
    const v1::DataType type = nest_.accesses[static_cast<size_t>(inside)].dtype;
    factors_.push_back({inside, isFloatingPoint(type) ? type : withSign(type, operation->name == "extsi")});
    return true;
  }

  const SpatialNest& nest_;
  std::vector<Factor> factors_;
};

absl::Status refuse(const std::string& why) { return absl::FailedPreconditionError(why); }

loopnest::Access accessOf(const SpatialAccess& from, const std::string& name, v1::DataType dtype) {
  return {.name = name, .subscripts = from.subscripts, .dtype = dtype};
}

}  // namespace

absl::StatusOr<ProductNest> productOf(const SpatialNest& nest, const CheckedKernel& kernel) {
  ProductNest product;
  v1::DataType summed = v1::DATA_TYPE_F32;
  const auto factors = Recognition(nest).run(summed);
  if (!factors) return refuse("its body is no sum of products");
  const SpatialAccess& output = nest.accesses[0];
  const bool real = isFloatingPoint(summed);
  if (real ? summed == v1::DATA_TYPE_F64 || output.dtype == v1::DATA_TYPE_F64
           : !sameInArithmetic(summed, output.dtype) || widthOf(summed) == 64) {
    return refuse(absl::StrCat("its sums are ", elementText(summed), ", stored as ", elementText(output.dtype)));
  }
  if (real) product.stored = output.dtype;
  product.nest.name = nest.name;
  product.nest.loops = nest.loops;
  const auto add = [&](const SpatialAccess& access, const std::string& name, v1::DataType dtype) {
    product.nest.accesses.push_back(accessOf(access, name, dtype));
    product.views.push_back({access.strides, access.offset, kernel.elements[static_cast<size_t>(access.buffer)]});
  };
  add(output, "out", real ? summed : withSign(summed, true));
  loopnest::Statement statement{.name = nest.name};
  for (int l = 0; l < static_cast<int>(nest.loops.size()); ++l) statement.loops.push_back(l);
  bool reduces = false;
  for (int l = 0; l < static_cast<int>(nest.loops.size()); ++l)
    reduces = reduces || (nest.loops[static_cast<size_t>(l)].extent > 1 && !product.nest.uses(0, l));
  if (!reduces) return refuse("it sums nothing");
  for (const auto& factor : *factors) {
    const SpatialAccess& access = nest.accesses[static_cast<size_t>(factor.access)];
    if (access.buffer == output.buffer) return refuse("it reads the buffer that it writes");
    if (factor.dtype == v1::DATA_TYPE_BOOL || factor.dtype == v1::DATA_TYPE_F64)
      return refuse(absl::StrCat("a factor is ", elementText(factor.dtype)));
    add(access, absl::StrCat("in", product.factors.size()), factor.dtype);
    statement.inputs.push_back(static_cast<int>(product.nest.accesses.size()) - 1);
    product.factors.push_back(factor.access);
  }
  // Every loop that is no reduction must give results of its own.
  const std::vector<bool> parallel = parallelLoopsOf(nest);
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (nest.loops[l].extent > 1 && product.nest.uses(0, static_cast<int>(l)) && !parallel[l])
      return refuse("several of its points write one element in a way that is no sum over loops");
  if (!product.nest.isAffine()) return refuse("a subscript has a quotient or remainder");
  statement.body =
      intrinsic::bodyOf(factors->size() == 1 ? v1::Intrinsic::Arithmetic::ADD : v1::Intrinsic::Arithmetic::MULTIPLY_ADD,
                        factors->size(), true);
  product.nest.statements.push_back(std::move(statement));
  if (absl::Status status = loopnest::validate(product.nest); !status.ok())
    return refuse(std::string(status.message()));
  return product;
}

std::string unfit(const ProductNest& product, const v1::Intrinsic& intrinsic, const loopnest::Nest& instruction,
                  std::span<const int> sources) {
  if (intrinsic::formOf(product.nest) != intrinsic::formOf(instruction)) return "it computes another form";
  if (sources.size() + 1 != instruction.accesses.size() || product.factors.size() != sources.size())
    return absl::StrCat("it has ", instruction.accesses.size() - 1, " sources");
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] < 0 || sources[i] >= static_cast<int>(sources.size())) return "a source is no factor";
    const v1::DataType is = product.nest.accesses[static_cast<size_t>(sources[i]) + 1].dtype;
    const v1::DataType wanted = instruction.accesses[i + 1].dtype;
    if (is != wanted) return absl::StrCat("a factor is ", elementText(is), ", its source ", elementText(wanted));
  }
  using Arithmetic = v1::Intrinsic::Arithmetic;
  const Arithmetic& arithmetic = intrinsic.arithmetic();
  const v1::DataType summed = product.nest.accesses[0].dtype, to = instruction.accesses[0].dtype;
  const v1::DataType middle = arithmetic.intermediate() == v1::DATA_TYPE_UNSPECIFIED ? to : arithmetic.intermediate();
  if (isFloatingPoint(summed)) {
    if (!isFloatingPoint(to) || !isFloatingPoint(middle) ||
        std::max(unitRoundoff(to), unitRoundoff(middle)) > unitRoundoff(summed))
      return absl::StrCat("it sums in ", elementText(middle), ", the nest in ", elementText(summed));
    return "";
  }
  if (!sameInArithmetic(summed, to) || isFloatingPoint(middle) || widthOf(middle) < widthOf(to) ||
      arithmetic.overflow() == Arithmetic::SATURATE || arithmetic.intermediate_overflow() == Arithmetic::SATURATE)
    return absl::StrCat("it sums in ", elementText(to), " or saturates, the nest's sums are ", elementText(summed));
  return "";
}

bool isTooLong(const intrinsic::PhysicalMapping& mapping) {
  return std::ranges::any_of(mapping.groups, [](const auto& group) { return group.extent > kMaxGroupIndices; });
}

std::optional<std::vector<std::pair<int64_t, int64_t>>> elementsWalked(const SpatialNest& nest,
                                                                       const SpatialAccess& access) {
  if (!access.position.digits.empty()) return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (const loopnest::Term& term : access.position.terms) {
    const int64_t extent = nest.loops[static_cast<size_t>(term.loop)].extent;
    if (extent == 1) continue;
    if (term.coefficient < 0) return std::nullopt;
    steps.emplace_back(term.coefficient, extent);
  }
  std::ranges::sort(steps);
  // Loops that walk adjacent elements are one loop.
  std::vector<std::pair<int64_t, int64_t>> joined;
  for (const auto& [stride, extent] : steps) {
    if (!joined.empty() && stride == joined.back().first * joined.back().second) {
      joined.back().second *= extent;
    } else if (!joined.empty() && stride <= joined.back().first * (joined.back().second - 1)) {
      return std::nullopt;
    } else {
      joined.emplace_back(stride, extent);
    }
  }
  return joined;
}

bool touches(const SpatialNest& nest, int buffer) {
  return std::ranges::any_of(nest.accesses, [&](const SpatialAccess& access) { return access.buffer == buffer; }) ||
         std::ranges::any_of(nest.body, [&](const SpatialOperation& operation) {
           return operation.name == "load" && operation.access.buffer == buffer;
         });
}

bool fillsWithZero(const SpatialNest& fill, const SpatialNest& product) {
  if (fill.accesses.size() != 1 || fill.outputs != 1) return false;
  const SpatialAccess &filled = fill.accesses[0], &written = product.accesses[0];
  const size_t yield = static_cast<size_t>(fill.yields[0]);
  if (yield < fill.accesses.size() || filled.buffer != written.buffer ||
      filled.position.constant != written.position.constant)
    return false;
  const SpatialOperation& constant = fill.body[yield - fill.accesses.size()];
  // -0 is the neutral element of a floating-point sum, too, but no instruction starts from it.
  if (constant.name != "constant" || std::ranges::any_of(constant.constant, [](char byte) { return byte != 0; }))
    return false;
  const auto fills = elementsWalked(fill, filled), writes = elementsWalked(product, written);
  return fills && writes && *fills == *writes;
}

std::vector<int> fillsOf(const CheckedKernel& kernel) {
  std::vector<int> fills(kernel.nests.size(), -1);
  for (size_t n = 0; n < kernel.nests.size(); ++n) {
    const SpatialNest& nest = kernel.nests[n];
    if (nest.outputs != 1) continue;
    for (size_t before = n; before-- > 0;) {
      if (!touches(kernel.nests[before], nest.accesses[0].buffer)) continue;
      if (fillsWithZero(kernel.nests[before], nest)) fills[n] = static_cast<int>(before);
      break;
    }
  }
  return fills;
}

}  // namespace tessera::compiler::simulator
