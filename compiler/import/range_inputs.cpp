// Input dimensions that are ranges: adds the arguments with their sizes, and computes the sizes that are derived from
// others.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/graph_importer.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// An integer of the module, divided by a constant.
struct Quotient {
  Tensor above;
  int64_t below = 1;
};

Tensor computed(Emitter& e, const Tensor& x, const Tensor& y, DimensionFormula::Kind kind) {
  return e.elementwise(v1::DATA_TYPE_I64, {x, y}, [&](const Scalars& s, mlir::ValueRange v) {
    if (kind == DimensionFormula::Kind::kMultiply) return s.mul(v[0], v[1]);
    return kind == DimensionFormula::Kind::kAdd ? s.add(v[0], v[1]) : s.sub(v[0], v[1]);
  });
}

Tensor rounded(Emitter& e, const Quotient& x, bool up) {
  if (x.below == 1) return x.above;
  return e.elementwise(v1::DATA_TYPE_I64, {x.above}, [&](const Scalars& s, mlir::ValueRange v) {
    const mlir::Value below = s.integer(x.below), above = up ? s.add(v[0], s.integer(x.below - 1)) : v[0];
    return s.div(s.sub(above, s.floorMod(above, below)), below);
  });
}

/// Emits the formula of a derived dimension. `size_of` returns the size of a dimension by its position among the names.
mlir::Value derivedCount(Emitter& e, const DimensionFormula& formula, llvm::function_ref<Tensor(size_t)> size_of) {
  using Kind = DimensionFormula::Kind;
  // The formula is in postfix order, so a stack evaluates it. Every entry is a fraction: divisions stay exact until the
  // formula rounds.
  std::vector<Quotient> stack;
  bool may_be_negative = false;
  for (const DimensionFormula::Step& step : formula.steps()) {
    switch (step.kind) {
      case Kind::kNumber:
        stack.push_back({scalarI64(step.number)});
        continue;
      case Kind::kDimension:
        stack.push_back({size_of(static_cast<size_t>(step.number))});
        continue;
      case Kind::kDivide:
        stack.back().below *= step.number;
        continue;
      case Kind::kFloor:
      case Kind::kCeiling:
        stack.back() = {rounded(e, stack.back(), step.kind == Kind::kCeiling)};
        continue;
      default:
        break;
    }
    Quotient y = std::move(stack.back());
    stack.pop_back();
    Quotient& x = stack.back();
    may_be_negative |= step.kind == Kind::kSubtract;
    if (step.kind == Kind::kMultiply) {
      // Fractions multiply above and below; other operations bring both to a common denominator first.
      x = {computed(e, x.above, y.above, step.kind), x.below * y.below};
    } else {
      const int64_t below = std::lcm(x.below, y.below);
      x = {computed(e, multiplied(e, x.above, below / x.below), multiplied(e, y.above, below / y.below), step.kind),
           below};
    }
  }
  Tensor count = rounded(e, stack.back(), false);  // a run with a fraction is refused
  if (may_be_negative) {
    count = e.elementwise(v1::DATA_TYPE_I64, {count},
                          [](const Scalars& s, mlir::ValueRange v) { return s.max(v[0], s.integer(0)); });
  }
  return count.value;
}

}  // namespace

absl::Status GraphImporter::markRange(int dimension, mlir::Value extent,
                                      const std::vector<const onnx::ValueInfoProto*>& inputs, Scope& scope) {
  const std::string& name = result_.dimensions[static_cast<size_t>(dimension)].name();
  for (const auto* input : inputs) {
    // Several inputs may share the dimension, and one may have it twice.
    const auto& dims = input->type().tensor_type().shape().dim();
    Tensor& tensor = scope.values[input->name()];
    for (int d = 0; d < dims.size(); ++d) {
      if (dims[d].dim_param() != name || tensor.unknown) continue;
      if (fixed_.contains(input->name())) {
        return fault(v1::Failure::INVALID_INPUT, "the value of an input with a ranged dimension is fixed",
                     {.attribute = input->name(), .found = printable(name), .accepted = "one size"});
      }
      tensor.extents[d] = extent;
      auto spec = std::find_if(result_.inputs.begin(), result_.inputs.end(),
                               [&](const v1::TensorSpec& known) { return known.name() == input->name(); });
      if (spec == result_.inputs.end()) continue;
      spec->add_bounded_dims(d);
      spec->add_bounded_by(dimension);
    }
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::bindRanges(const std::vector<const onnx::ValueInfoProto*>& inputs, Scope& scope) {
  Emitter e = emitter("inputs");
  // First gives every range an argument, which holds its size in a run; formulas below may read any of them.
  std::map<std::string, mlir::Value> counts;
  std::vector<v1::TensorSpec> specs;
  for (int d = 0; d < static_cast<int>(result_.dimensions.size()); ++d) {
    const v1::DimensionBinding& range = result_.dimensions[static_cast<size_t>(d)];
    if (range.size() >= 0) continue;
    for (const auto* input : inputs) {
      if (input->name() != range.name()) continue;
      return fault(v1::Failure::INVALID_INPUT,
                   absl::StrCat("dimension '", printable(range.name()), "' cannot be a range: an input has its name"),
                   {.attribute = range.name(), .accepted = "sizes, as in 1,4,8"});
    }
    counts[range.name()] = main_.getBody().front().addArgument(
        e.type(v1::DATA_TYPE_I64, {}), mlir::NameLoc::get(e.b.getStringAttr(printable(range.name()))));
    // A derived dimension varies with others and is no range of its own.
    if (!dimensions_.formulaOf(range.name())) shape_values_.addRange(d, counts[range.name()], -range.size());
    v1::TensorSpec& spec = specs.emplace_back();
    spec.set_name(range.name());
    spec.set_dtype(v1::DATA_TYPE_I64);
  }
  const auto sizeOf = [&](size_t position) {
    const auto known =
        std::find_if(result_.dimensions.begin(), result_.dimensions.end(),
                     [&](const v1::DimensionBinding& each) { return each.name() == dimensions_.names()[position]; });
    return known->size() < 0 ? Emitter::wrap(counts.at(known->name()), v1::DATA_TYPE_I64) : scalarI64(known->size());
  };
  // Then marks all dimensions of inputs that have the range or a formula of it.
  for (int d = 0; d < static_cast<int>(result_.dimensions.size()); ++d) {
    const v1::DimensionBinding& range = result_.dimensions[static_cast<size_t>(d)];
    if (range.size() >= 0) continue;
    const DimensionFormula* formula = dimensions_.formulaOf(range.name());
    // A dimension with one size in every run has no extent.
    if (formula ? dimensions_.derivesFromFixedSizes(range.name()) : range.size() == -1) continue;
    const mlir::Value count = formula ? derivedCount(e, *formula, sizeOf) : counts.at(range.name());
    TESSERA_RETURN_IF_ERROR(markRange(d, count, inputs, scope));
  }
  // The sizes come after all other inputs.
  result_.inputs.insert(result_.inputs.end(), specs.begin(), specs.end());
  return absl::OkStatus();
}

}  // namespace tessera::compiler
