// Feature transforms of ai.onnx.ml: scaling, imputation, encodings by tables of numbers.
#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/ops/indexing.h"
#include "compiler/import/ops/machine_learning.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

/// Returns one number for all features, or one for each, as a tensor that broadcasts along the last dimension.
absl::StatusOr<Tensor> perFeature(Node& n, const std::string& attribute, const std::vector<double>& values,
                                  v1::DataType dtype) {
  const Shape& shape = n.in(0).shape;
  if (values.size() == 1) return Emitter::wrap(realConstant(dtype, {1}, values));
  if (shape.empty() || static_cast<int64_t>(values.size()) != shape.back()) {
    return differentCounts(n, attribute, values.size(), shape.empty() ? 1 : shape.back());
  }
  return Emitter::wrap(realConstant(dtype, {shape.back()}, values));
}

Results lowerScaler(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1));
  TESSERA_ASSIGN_OR_RETURN(const auto offsets, n.reals("offset"));
  TESSERA_ASSIGN_OR_RETURN(const auto scales, n.reals("scale"));
  TESSERA_ASSIGN_OR_RETURN(const Tensor offset, perFeature(n, "offset", offsets, kF32));
  TESSERA_ASSIGN_OR_RETURN(const Tensor scale, perFeature(n, "scale", scales, kF32));
  return {{e.elementwise(kF32, {e.cast(n.in(0), kF32), offset, scale},
                         [](const Scalars& s, ValueRange v) { return s.mul(s.sub(v[0], v[1]), v[2]); })}};
}

/// Divides rows by their greatest element, their sum of magnitudes or their length; zero rows stay.
Results lowerNormalizer(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const std::string norm, n.text("norm", "MAX"));
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1, 2));
  const Tensor x = e.cast(n.in(0), kF32);
  if (norm != "MAX" && norm != "L1" && norm != "L2") {
    return n.invalid(absl::StrCat("no such norm: '", norm, "'"),
                     {.attribute = "norm", .found = norm, .accepted = "MAX, L1 or L2"});
  }
  if (x.elements() == 0) return {{x}};
  const Reduction reduction = norm == "MAX" ? Reduction::kMax : norm == "L1" ? Reduction::kL1 : Reduction::kL2;
  const Tensor size = reduceKeepingDims(e, x, {x.rank() - 1}, reduction);
  return {{e.elementwise(kF32, {x, size}, [](const Scalars& s, ValueRange v) {
    return s.select(s.compare(Relation::kEqual, v[1], s.constant(0)), v[0], s.div(v[0], v[1]));
  })}};
}

Results lowerBinarizer(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double threshold, n.real("threshold", 0.0));
  const v1::DataType type = n.in(0).dtype;
  return {{e.elementwise(type, {n.in(0)}, [&](const Scalars& s, ValueRange v) {
    const Scalars real = s.as(isFloat(type) ? type : kF32);
    const Value above = real.compare(Relation::kGreater, s.cast(v[0], real.type), real.constant(threshold));
    return isFloat(type) ? s.select(above, s.constant(1), s.constant(0)) : s.select(above, s.integer(1), s.integer(0));
  })}};
}

Results lowerImputer(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  if (isFloat(x.dtype)) {
    TESSERA_ASSIGN_OR_RETURN(const auto values, n.reals("imputed_value_floats"));
    TESSERA_ASSIGN_OR_RETURN(const double replaced, n.real("replaced_value_float", 0.0));
    n.ignore("replaced_value_int64");
    TESSERA_ASSIGN_OR_RETURN(const Tensor imputed, perFeature(n, "imputed_value_floats", values, x.dtype));
    return {{e.elementwise(x.dtype, {x, imputed}, [&](const Scalars& s, ValueRange v) {
      const Value missing = std::isnan(replaced) ? s.compare(Relation::kNotEqual, v[0], v[0])
                                                 : s.compare(Relation::kEqual, v[0], s.constant(replaced));
      return s.select(missing, v[1], v[0]);
    })}};
  }
  TESSERA_ASSIGN_OR_RETURN(const auto values, n.integers("imputed_value_int64s"));
  TESSERA_ASSIGN_OR_RETURN(const int64_t replaced, n.integer("replaced_value_int64", 0));
  n.ignore("replaced_value_float");
  if (values.size() != 1 && (x.rank() == 0 || static_cast<int64_t>(values.size()) != x.shape.back())) {
    return differentCounts(n, "imputed_value_int64s", values.size(), x.rank() == 0 ? 1 : x.shape.back());
  }
  const Tensor imputed = e.cast(Emitter::wrap(integerConstant(values)), x.dtype);
  return {{e.elementwise(x.dtype, {x, imputed}, [&](const Scalars& s, ValueRange v) {
    return s.select(s.compare(Relation::kEqual, v[0], s.integer(replaced)), v[1], v[0]);
  })}};
}

/// Selects columns of the last dimension; a vector counts as one row.
Results lowerArrayFeatureExtractor(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1));
  TESSERA_RETURN_IF_ERROR(checkIndices(n, 1));
  const int64_t count = n.in(1).elements(), features = x.shape.back();
  Shape shape = x.shape;
  shape.back() = count;
  if (x.rank() == 1) shape = {1, count};
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  if (features == 0 || count == 0) return n.invalid("there are no features", {.found = shapeText(x.shape)});
  if (n.in(1).constant) {
    for (const int64_t at : n.in(1).constant->integers()) {
      if (at >= 0 && at < features) continue;
      return n.invalid("a feature does not exist",
                       {.attribute = "Y", .found = absl::StrCat(at), .accepted = absl::StrCat("0 to ", features - 1)});
    }
  }
  const int64_t rows = x.elements() / features;
  const Value source = e.value(e.reshape(x, {rows, features}));
  const Value indices = e.value(e.reshape(n.in(1), {count}));
  const Tensor y = e.generate(x.dtype, {rows, count}, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(n.in(1).dtype);
    const Value column = coordinate(s, e.extract(wide, indices, {at[1]}), n.in(1).dtype, features);
    return e.extract(s, source, {at[0], column});
  });
  return {{e.reshape(y, shape)}};
}

Results lowerFeatureVectorizer(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const auto sizes, n.integers("inputdimensions", std::vector<int64_t>{}));
  if (!sizes.empty() && static_cast<int>(sizes.size()) != n.numInputs()) {
    return differentCounts(n, "inputdimensions", sizes.size(), n.numInputs());
  }
  std::vector<Tensor> parts;
  int64_t columns = 0;
  for (int i = 0; i < n.numInputs(); ++i) {
    if (!n.has(i)) return n.invalid("an input is missing", {.attribute = absl::StrCat("input ", i)});
    TESSERA_RETURN_IF_ERROR(n.requireRank(i, 1, 2));
    Tensor part = e.cast(n.in(i), kF32);
    if (part.rank() == 1) part = e.reshape(part, {1, part.shape[0]});
    if (!parts.empty() && part.shape[0] != parts[0].shape[0]) {
      return n.invalid("inputs have different numbers of rows", {.attribute = absl::StrCat("input ", i),
                                                                 .found = absl::StrCat(part.shape[0]),
                                                                 .accepted = absl::StrCat(parts[0].shape[0])});
    }
    columns += part.shape[1];
    if (!sizes.empty() && sizes[i] != part.shape[1]) {
      return n.invalid(
          "an input has another number of features",
          {.attribute = "inputdimensions", .found = absl::StrCat(sizes[i]), .accepted = absl::StrCat(part.shape[1])});
    }
    parts.push_back(std::move(part));
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult({parts[0].shape[0], columns}, kF32));
  return {{e.concat(parts, 1)}};
}

/// One-hot encoding in an additional dimension; an unknown category gives zeros.
Results lowerOneHotEncoder(Node& n, Emitter& e) {
  if (n.hasAttribute("cats_strings")) {
    return n.unsupported("categories that are strings", {.attribute = "cats_strings",
                                                         .accepted = "cats_int64s",
                                                         .remedy = "encode the categories as integers before export"});
  }
  TESSERA_ASSIGN_OR_RETURN(const auto categories, n.integers("cats_int64s"));
  // With zeros = 0 an unknown category should fail the run, which a kernel cannot do: it gives zeros as well.
  TESSERA_RETURN_IF_ERROR(n.flag("zeros", true).status());
  const auto count = static_cast<int64_t>(categories.size());
  if (count == 0) return n.invalid("there are no categories", {.attribute = "cats_int64s"});
  Shape shape = n.in(0).shape, one = n.in(0).shape;
  shape.push_back(count);
  one.push_back(1);
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, kF32));
  const Tensor x = e.reshape(e.cast(n.in(0), kI64), one);
  return {{e.elementwise(kF32, {x, Emitter::wrap(integerConstant(categories))}, [](const Scalars& s, ValueRange v) {
    const Scalars real = s.as(kF32);
    return real.select(s.compare(Relation::kEqual, v[0], v[1]), real.constant(1), real.constant(0));
  })}};
}

/// Returns the numbers of a LabelEncoder from the attribute of its version; `suffix` is "s" for lists.
absl::StatusOr<ConstantPtr> encoderNumbers(Node& n, const std::string& what) {
  if (n.hasAttribute(what + "s_strings") || n.hasAttribute("classes_strings")) {
    return n.unsupported("labels that are strings",
                         {.attribute = n.hasAttribute("classes_strings") ? "classes_strings" : what + "s_strings",
                          .accepted = "labels that are numbers",
                          .remedy = "encode strings as integers before the artifact"});
  }
  if (n.hasAttribute(what + "s_tensor")) return n.tensor(what + "s_tensor");
  if (n.hasAttribute(what + "s_int64s")) {
    TESSERA_ASSIGN_OR_RETURN(const auto values, n.integers(what + "s_int64s"));
    return integerConstant(values);
  }
  TESSERA_ASSIGN_OR_RETURN(const auto values, n.reals(what + "s_floats"));
  return realConstant(kF32, {static_cast<int64_t>(values.size())}, values);
}

/// Searches sorted keys without branches; among equal keys the first one of the model counts.
Results lowerLabelEncoder(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr keys, encoderNumbers(n, "key"));
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr values, encoderNumbers(n, "value"));
  const v1::DataType from = n.in(0).dtype, to = values->dtype;
  const auto count = keys->elements();
  if (keys->dtype != from) {
    return n.invalid("the keys have another type than the elements",
                     {.attribute = "keys", .found = typeName(keys->dtype), .accepted = typeName(from)});
  }
  if (values->elements() != count || count == 0) return differentCounts(n, "values", values->elements(), count);
  TESSERA_ASSIGN_OR_RETURN(const int64_t whole, n.integer("default_int64", -1));
  TESSERA_ASSIGN_OR_RETURN(const double real, n.real("default_float", -0.0));
  n.ignore("default_string");
  double fallback = real;
  int64_t whole_fallback = whole;
  if (n.hasAttribute("default_tensor")) {
    TESSERA_ASSIGN_OR_RETURN(const ConstantPtr value, n.tensor("default_tensor"));
    if (value->elements() != 1) return differentCounts(n, "default_tensor", value->elements(), 1);
    fallback = value->realAt(0);
    whole_fallback = value->integerAt(0);
  }
  const bool real_keys = isFloat(from);
  std::vector<int64_t> order;
  int64_t of_nan = -1;  // the position of NaN among the keys
  for (int64_t i = 0; i < count; ++i) {
    if (!real_keys || !std::isnan(keys->realAt(i))) {
      order.push_back(i);
    } else if (of_nan < 0) {
      of_nan = i;
    }
  }
  auto less = [&](int64_t a, int64_t b) {
    return real_keys ? keys->realAt(a) < keys->realAt(b) : keys->integerAt(a) < keys->integerAt(b);
  };
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return less(a, b) || (!less(b, a) && a < b); });
  order.erase(std::unique(order.begin(), order.end(), [&](int64_t a, int64_t b) { return !less(a, b); }), order.end());
  auto table = [&](const ConstantPtr& of) {
    std::string bytes;
    const int64_t size = elementBytes(of->dtype);
    for (const int64_t i : order) bytes.append(of->bytes.substr(i * size, size));
    return e.value(Emitter::wrap(makeConstant(of->dtype, {static_cast<int64_t>(order.size())}, std::move(bytes))));
  };
  if (order.empty()) return n.unsupported("no key but NaN", {.attribute = "keys"});
  const Value sorted = table(keys), results = table(values);
  const auto last = static_cast<int64_t>(order.size()) - 1;
  return {{e.elementwise(to, {n.in(0)}, [&](const Scalars& s, ValueRange v) {
    namespace arith = mlir::arith;
    const Scalars target = s.as(to);
    auto index = [&](int64_t at) { return arith::ConstantIndexOp::create(s.b, s.loc, at).getResult(); };
    // Finds the last key that is not above the element, by halving steps.
    Value place = index(0);
    for (auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(last))); step > 0; step /= 2) {
      const Value next = arith::AddIOp::create(s.b, s.loc, place, index(step));
      const Value within = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::sle, next, index(last));
      const Value clamped = arith::SelectOp::create(s.b, s.loc, within, next, index(last));
      const Value reached = s.compare(Relation::kLessOrEqual, e.extract(s, sorted, {clamped}), v[0]);
      place = arith::SelectOp::create(s.b, s.loc, s.as(v1::DATA_TYPE_BOOL).logicalAnd(within, reached), clamped, place);
    }
    const Value found = s.compare(Relation::kEqual, e.extract(s, sorted, {place}), v[0]);
    const Value other = isFloat(to) ? target.constant(fallback) : target.integer(whole_fallback);
    Value result = target.select(found, e.extract(target, results, {place}), other);
    if (of_nan >= 0 && n.opset() >= 4) {
      const Value value =
          isFloat(to) ? target.constant(values->realAt(of_nan)) : target.integer(values->integerAt(of_nan));
      result = target.select(s.compare(Relation::kNotEqual, v[0], v[0]), value, result);
    }
    return result;
  })}};
}

}  // namespace

std::vector<Operator> featureOperators() {
  constexpr TypeSet kAnyFeature = static_cast<TypeSet>(kFeatures | kUnsigned | kBool);
  return ofRows({
      {"ArrayFeatureExtractor", 1, 2, 2, lowerArrayFeatureExtractor, kAnyFeature},
      {"Binarizer", 1, 1, 1, lowerBinarizer, kFeatures},
      {"FeatureVectorizer", 1, 1, kVariadic, lowerFeatureVectorizer, kFeatures},
      {"Imputer", 1, 1, 1, lowerImputer, kFeatures},
      {"LabelEncoder", 1, 1, 1, lowerLabelEncoder, kFeatures},
      {"Normalizer", 1, 1, 1, lowerNormalizer, kFeatures},
      {"OneHotEncoder", 1, 1, 1, lowerOneHotEncoder, kFeatures},
      {"Scaler", 1, 1, 1, lowerScaler, kFeatures},
  });
}

}  // namespace tessera::compiler
