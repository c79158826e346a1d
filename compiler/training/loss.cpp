#include "compiler/training/loss.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/import/model_error.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler::training {
namespace {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

constexpr std::array<std::string_view, 3> kLosses = {"cross-entropy", "mean-squared-error", "output"};

std::vector<int64_t> allDims(const Tensor& x) {
  std::vector<int64_t> dims(x.shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Tensor sumOf(Emitter& e, const Tensor& x, llvm::ArrayRef<int64_t> dims) {
  if (dims.empty()) return x;
  return e.reduce(x, dims, x.dtype, e.scalars(x.dtype).constant(0),
                  [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
}

/// Gives a tensor without its last dimension one of extent 1 there.
Tensor withLast(Emitter& e, const Tensor& x) {
  Shape shape = x.shape;
  shape.push_back(1);
  return e.reshape(x, shape);
}

/// Computed in f32 at least, so that 16-bit outputs lose nothing more.
v1::DataType wideOf(v1::DataType dtype) { return dtype == v1::DATA_TYPE_F64 ? dtype : v1::DATA_TYPE_F32; }

Loss crossEntropy(Emitter& e, const Tensor& output, const Tensor& labels) {
  const Tensor x = e.cast(output, wideOf(output.dtype));
  const int64_t classes = x.shape.back(), last = x.rank() - 1;
  const Tensor maximum = e.reduce(x, {last}, x.dtype, e.scalars(x.dtype).lowest(),
                                  [](const Scalars& s, ValueRange v) { return s.max(v[0], v[1]); });
  const Tensor shifted = e.elementwise(x.dtype, {x, withLast(e, maximum)},
                                       [](const Scalars& s, ValueRange v) { return s.sub(v[0], v[1]); });
  const Tensor powers =
      e.elementwise(x.dtype, {shifted}, [](const Scalars& s, ValueRange v) { return s.math<math::ExpOp>(v[0]); });
  const Tensor sum = sumOf(e, powers, {last});
  const auto counts = [&](const Scalars& s, Value label) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    return s.logicalAnd(wide.compare(Relation::kGreaterOrEqual, label, wide.integer(0)),
                        wide.compare(Relation::kLess, label, wide.integer(classes)));
  };
  // Whether class c is the label: read for each class, so that no index is computed.
  const auto hit = [&](const Scalars& s, Value label) {
    const Value c = mlir::arith::IndexCastOp::create(
        s.b, s.loc, s.b.getI64Type(), mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(last)));
    return s.as(v1::DATA_TYPE_I64).compare(Relation::kEqual, c, label);
  };
  const Tensor label = withLast(e, labels);
  const Tensor picked =
      sumOf(e,
            e.elementwise(x.dtype, {shifted, label},
                          [&](const Scalars& s, ValueRange v) { return s.select(hit(s, v[1]), v[0], s.constant(0)); }),
            {last});
  const Tensor each = e.elementwise(x.dtype, {sum, picked, labels}, [&](const Scalars& s, ValueRange v) {
    return s.select(counts(s, v[2]), s.sub(s.math<math::LogOp>(v[0]), v[1]), s.constant(0));
  });
  const Tensor counted = e.elementwise(x.dtype, {labels}, [&](const Scalars& s, ValueRange v) {
    const Scalars real = s.as(x.dtype);
    return real.select(counts(s, v[0]), real.constant(1), real.constant(0));
  });
  const Tensor number = e.elementwise(x.dtype, {sumOf(e, counted, allDims(counted))},
                                      [](const Scalars& s, ValueRange v) { return s.max(v[0], s.constant(1)); });
  const Tensor total = sumOf(e, each, allDims(each));
  const Tensor value =
      e.elementwise(x.dtype, {total, number}, [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); });
  const Tensor gradient =
      e.elementwise(x.dtype, {powers, withLast(e, sum), label, number}, [&](const Scalars& s, ValueRange v) {
        const Value part = s.sub(s.div(v[0], v[1]), s.select(hit(s, v[2]), s.constant(1), s.constant(0)));
        return s.select(counts(s, v[2]), s.div(part, v[3]), s.constant(0));
      });
  return {e.cast(value, v1::DATA_TYPE_F32), e.cast(gradient, output.dtype)};
}

Loss meanSquaredError(Emitter& e, const Tensor& output, const Tensor& labels) {
  const Tensor x = e.cast(output, wideOf(output.dtype));
  const auto count = static_cast<double>(x.elements());
  const Tensor difference = e.elementwise(x.dtype, {x, e.cast(labels, x.dtype)},
                                          [](const Scalars& s, ValueRange v) { return s.sub(v[0], v[1]); });
  const Tensor square =
      e.elementwise(x.dtype, {difference}, [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[0]); });
  const Tensor value = e.elementwise(x.dtype, {sumOf(e, square, allDims(square))},
                                     [&](const Scalars& s, ValueRange v) { return s.div(v[0], s.constant(count)); });
  const Tensor gradient = e.elementwise(
      x.dtype, {difference}, [&](const Scalars& s, ValueRange v) { return s.mul(v[0], s.constant(2 / count)); });
  return {e.cast(value, v1::DATA_TYPE_F32), e.cast(gradient, output.dtype)};
}

absl::Status misfit(const std::string& name, const v1::TensorSpec& output, const std::string& accepted) {
  const Shape shape(output.shape().begin(), output.shape().end());
  return fault(v1::Failure::INVALID_INPUT, absl::StrCat("output '", output.name(), "' does not fit loss '", name, "'"),
               {.attribute = "loss",
                .found = absl::StrCat(typeName(output.dtype()), " ", shapeText(shape)),
                .accepted = accepted,
                .remedy = "name another output: --loss-output NAME"});
}

}  // namespace

absl::StatusOr<Labels> labelsOf(const std::string& name, const v1::TensorSpec& output) {
  if (std::ranges::find(kLosses, name) == kLosses.end())
    return fault(v1::Failure::INVALID_INPUT, absl::StrCat("there is no loss '", name, "'"),
                 {.attribute = "loss", .found = name, .accepted = "cross-entropy, mean-squared-error, output"});
  if (!isFloat(output.dtype())) return misfit(name, output, "an output of a floating-point type");
  Shape shape(output.shape().begin(), output.shape().end());
  if (name == "output") {
    if (elementCount(shape) != 1) return misfit(name, output, "an output of one element");
    return Labels{};
  }
  if (elementCount(shape) == 0) return misfit(name, output, "at least one element");
  if (name == "mean-squared-error") return Labels{"labels", wideOf(output.dtype()), std::move(shape)};
  if (shape.empty()) return misfit(name, output, "scores whose last dimension counts the classes");
  shape.pop_back();
  return Labels{"labels", v1::DATA_TYPE_I64, std::move(shape)};
}

Loss emitLoss(Emitter& e, const std::string& name, const Tensor& output, const Tensor& labels) {
  if (name == "cross-entropy") return crossEntropy(e, output, labels);
  if (name == "mean-squared-error") return meanSquaredError(e, output, labels);
  const Tensor one = e.filled(e.scalars(output.dtype).constant(1), output.dtype, output.shape);
  return {e.cast(e.reshape(output, {}), v1::DATA_TYPE_F32), one};
}

}  // namespace tessera::compiler::training
