// Tensors made from attributes and shapes.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

Results lowerConstant(Node& n, Emitter& e) {
  // Exactly one attribute is present; each stands for another element type.
  if (n.hasAttribute("value")) {
    TESSERA_ASSIGN_OR_RETURN(ConstantPtr constant, n.tensor("value"));
    return {{Emitter::wrap(std::move(constant))}};
  }
  if (n.hasAttribute("value_int")) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t value, n.integer("value_int"));
    return {{Emitter::wrap(reshaped(integerConstant({value}), {}))}};
  }
  if (n.hasAttribute("value_ints")) {
    TESSERA_ASSIGN_OR_RETURN(const auto values, n.integers("value_ints"));
    return {{Emitter::wrap(integerConstant(values))}};
  }
  if (n.hasAttribute("value_float")) {
    TESSERA_ASSIGN_OR_RETURN(const double value, n.real("value_float"));
    return {{Emitter::wrap(realConstant(v1::DATA_TYPE_F32, {}, {value}))}};
  }
  if (n.hasAttribute("value_floats")) {
    TESSERA_ASSIGN_OR_RETURN(const auto values, n.reals("value_floats"));
    return {{Emitter::wrap(realConstant(v1::DATA_TYPE_F32, {static_cast<int64_t>(values.size())}, values))}};
  }
  const char* accepted = "value, value_int, value_ints, value_float, value_floats";
  for (const char* text : {"value_string", "value_strings"}) {
    if (!n.hasAttribute(text)) continue;
    return n.unsupported("the value is text", {.attribute = text,
                                               .found = "text",
                                               .accepted = accepted,
                                               .remedy = "convert text to numbers before the artifact, and remove that "
                                                         "part from the model"});
  }
  return n.unsupported("no value of a supported kind", {.attribute = "value", .accepted = accepted});
}

Results lowerConstantOfShape(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const SizeList sizes, n.sizes(0, "shape"));
  const Shape& shape = sizes.most;
  ConstantPtr value = realConstant(v1::DATA_TYPE_F32, {1}, {0.0});
  if (n.hasAttribute("value")) {
    TESSERA_ASSIGN_OR_RETURN(value, n.tensor("value"));
    if (value->elements() != 1) {
      return n.invalid("the value is not one element",
                       {.attribute = "value", .found = shapeText(value->shape), .accepted = "one element"});
    }
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, value->dtype));
  const Scalars s = e.scalars(value->dtype);
  Value scalar = isFloat(value->dtype) ? s.constant(value->realAt(0)) : s.integer(value->integerAt(0));
  Tensor result = e.filled(scalar, value->dtype, shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (sizes.follows[d]) result.extents[static_cast<int64_t>(d)] = n.sizeAt(e, 0, static_cast<int64_t>(d)).value;
  }
  return {{std::move(result)}};
}

Results lowerRange(Node& n, Emitter& e) {
  n.ignore("stash_type");  // elements are computed in at least single precision
  std::vector<ConstantPtr> bounds;
  Tensor extent, begin;  // for a limit that varies with a range, and for such a start
  // With steps of 1, start and limit may vary with ranges: elements are the start plus 0, 1, 2, ...
  if (n.in(0).dtype == v1::DATA_TYPE_I64 && n.in(2).constant && n.in(2).constant->integerAt(0) == 1) {
    TESSERA_ASSIGN_OR_RETURN(const SizeList start, n.sizes(0, "start"));
    TESSERA_ASSIGN_OR_RETURN(const SizeList limit, n.sizes(1, "limit"));
    const bool single = start.most.size() == 1 && limit.most.size() == 1;
    if (single && (start.follows[0] || (limit.follows[0] && start.most[0] != 0))) {
      begin = start.follows[0] ? n.sizeAt(e, 0, 0) : scalarI64(start.most[0]);
      const Tensor end = limit.follows[0] ? n.sizeAt(e, 1, 0) : scalarI64(limit.most[0]);
      const Tensor count = e.elementwise(v1::DATA_TYPE_I64, {end, begin}, [](const Scalars& s, ValueRange v) {
        return s.max(s.sub(v[0], v[1]), s.integer(0));
      });
      // If both vary alike, the number of elements is constant and only the first one varies.
      const int64_t all = std::max<int64_t>(limit.most[0] - start.most[0], 0);
      const bool same = n.sameExtent(scaledExtent(e, begin, 1, all).value, end.value);
      const std::optional<int64_t> most = same ? all : n.extentBoundOf(count);
      if (!most) {
        return n.unsupported("a start that is known only at run time, of fewer elements at larger sizes",
                             {.attribute = "start", .found = "a run-time value", .accepted = "limit - start grows"});
      }
      if (!same) extent = count;
      bounds = {integerConstant({0}), integerConstant({*most}), integerConstant({1})};
    }
  }
  for (int i = 0; i < 3 && bounds.size() < 3; ++i) {
    static constexpr const char* kNames[] = {"start", "limit", "delta"};
    // A limit alone may vary as well, see below for the conditions.
    if (i == 1 && isInteger(n.in(0).dtype)) {
      TESSERA_ASSIGN_OR_RETURN(const SizeList limit, n.sizes(1, "limit"));
      if (limit.follows.size() == 1 && limit.follows[0]) {
        bounds.push_back(integerConstant(limit.most));
        extent = n.sizeAt(e, 1, 0);
        continue;
      }
    }
    TESSERA_ASSIGN_OR_RETURN(ConstantPtr bound, n.constantInput(i, kNames[i]));
    if (bound->elements() != 1) return n.invalid(absl::StrCat(kNames[i], " is not a scalar"), {.attribute = kNames[i]});
    bounds.push_back(std::move(bound));
  }
  const v1::DataType dtype = bounds[0]->dtype;
  if (extent.value && (bounds[0]->integerAt(0) != 0 || bounds[2]->integerAt(0) != 1)) {
    return n.unsupported("a limit that is known only at run time, with a start or steps of its own",
                         {.attribute = "limit", .found = "a run-time value", .accepted = "start 0, delta 1"});
  }
  const bool real = isFloat(dtype);
  __int128 count = 0;
  if (real) {
    const double steps = std::ceil((bounds[1]->realAt(0) - bounds[0]->realAt(0)) / bounds[2]->realAt(0));
    // Also false for NaN: a step of 0, or bounds that are NaN.
    if (!(steps < 9e18)) return n.invalid("the range has no end", {.attribute = "delta", .found = "0 or NaN"});
    count = steps > 0 ? static_cast<__int128>(steps) : 0;
  } else {
    // 128 bits: the difference of two int64_t does not fit 64.
    const __int128 from = bounds[0]->integerAt(0), to = bounds[1]->integerAt(0), step = bounds[2]->integerAt(0);
    if (step == 0) return n.invalid("the range has no end", {.attribute = "delta", .found = "0"});
    count = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
    count = std::max<__int128>(count, 0);
  }
  const Shape shape = {static_cast<int64_t>(std::min<__int128>(count, INT64_MAX))};
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, dtype));
  Tensor result = e.generate(dtype, shape, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    Value number = mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(), at[0]);
    Value step = wide.cast(number, dtype);
    if (real) {
      // 16-bit types compute in f32, since their multiples of a step would be rounded twice.
      const Scalars f = s.as(elementBytes(dtype) == 2 ? v1::DATA_TYPE_F32 : dtype);
      return f.cast(
          f.fma(wide.cast(number, f.type), f.constant(bounds[2]->realAt(0)), f.constant(bounds[0]->realAt(0))), dtype);
    }
    return s.fma(step, s.integer(bounds[2]->integerAt(0)), s.integer(bounds[0]->integerAt(0)));
  });
  if (begin.value || begin.constant) {
    result = e.elementwise(dtype, {result, begin}, [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
  }
  if (extent.value) result.extents[0] = extent.value;
  return {{std::move(result)}};
}

Results lowerEyeLike(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2, 2));
  TESSERA_ASSIGN_OR_RETURN(const v1::DataType dtype, n.dataType("dtype", n.in(0).dtype));
  TESSERA_ASSIGN_OR_RETURN(int64_t k, n.integer("k", 0));
  k = std::clamp<int64_t>(k, -INT32_MAX, INT32_MAX);
  TESSERA_RETURN_IF_ERROR(n.checkResult(n.in(0).shape, dtype));
  return {{e.generate(dtype, n.in(0).shape, [&](const Scalars& s, ValueRange at) {
    namespace arith = mlir::arith;
    Value shifted = arith::AddIOp::create(s.b, s.loc, at[0], arith::ConstantIndexOp::create(s.b, s.loc, k));
    Value on = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::eq, shifted, at[1]);
    return s.select(on, s.constant(1), s.constant(0));
  })}};
}

}  // namespace

std::vector<Operator> constantOperators() {
  return {
      {"Constant", 1, 0, 0, lowerConstant},
      {"ConstantOfShape", 9, 1, 1, lowerConstantOfShape, kIntegers},
      {"Range", 11, 3, 3, lowerRange, kNumbers, 3},
      {"EyeLike", 9, 1, 1, lowerEyeLike},
  };
}

}  // namespace tessera::compiler
