// Convolutions over N x C x spatial... tensors with filters F x C/groups x kernel....
#include "compiler/import/ops/convolution.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/window.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::utils::IteratorType;

/// Any rank, any groups: out[n, g, f, o...] += x[n, g, c, o * stride + k * dilation...] * w[g, f, c, k...].
Tensor convolveGeneric(Emitter& e, const Tensor& x, const Tensor& w, const Filter& f, const Window& window,
                       const Tensor& start) {
  const auto s = static_cast<unsigned>(window.rank());
  // Groups are a loop of their own.
  const unsigned g = f.groups > 1 ? 1 : 0;
  mlir::MLIRContext* context = e.b.getContext();
  // Loops: n, [g], f, o..., c, k...
  auto dim = [&](unsigned position) { return mlir::getAffineDimExpr(position, context); };
  const unsigned first_o = 2 + g, c = first_o + s, first_k = c + 1, loops = first_k + s;
  llvm::SmallVector<AffineExpr> in = {dim(0)}, filter, out = {dim(0)};
  if (g) {
    in.push_back(dim(1));
    filter.push_back(dim(1));
    out.push_back(dim(1));
  }
  in.push_back(dim(c));
  filter.append({dim(1 + g), dim(c)});
  out.push_back(dim(1 + g));
  for (unsigned d = 0; d < s; ++d) {
    in.push_back(dim(first_o + d) * window.strides[d] + dim(first_k + d) * window.dilations[d]);
    filter.push_back(dim(first_k + d));
    out.push_back(dim(first_o + d));
  }
  llvm::SmallVector<IteratorType> kinds(loops, IteratorType::parallel);
  for (unsigned d = c; d < loops; ++d) kinds[d] = IteratorType::reduction;

  Tensor input = x, weight = w, init = start;
  // Splits channels into groups and channels within a group.
  if (g) {
    auto split = [&](const Tensor& tensor, size_t at) {
      Shape shape = tensor.shape;
      shape[at] /= f.groups;
      shape.insert(shape.begin() + static_cast<int64_t>(at), f.groups);
      return e.reshape(tensor, std::move(shape));
    };
    input = split(x, 1);
    weight = split(w, 0);
    init = e.zeros(start.dtype, {x.shape[0], f.groups, f.outputs / f.groups});
    Shape shape = {x.shape[0], f.groups, f.outputs / f.groups};
    shape.insert(shape.end(), window.output.begin(), window.output.end());
    init = e.zeros(start.dtype, shape);
  }
  Tensor result =
      e.generic(start.dtype, init.shape,
                {{input, AffineMap::get(loops, 0, in, context)}, {weight, AffineMap::get(loops, 0, filter, context)}},
                AffineMap::get(loops, 0, out, context), kinds, &init,
                [](const Scalars& sc, mlir::ValueRange v) { return sc.fma(v[0], v[1], v[2]); });
  return e.reshape(result, start.shape);
}

}  // namespace

absl::StatusOr<Filter> readFilter(Node& n, const Tensor& x, const Tensor& w) {
  if (x.rank() < 3) {
    return n.invalid("the input has no spatial dimensions",
                     {.attribute = "X", .found = shapeText(x.shape), .accepted = "rank 3 or more"});
  }
  if (w.rank() != x.rank()) {
    return n.invalid("input and weight have different ranks",
                     {.attribute = "W", .found = shapeText(w.shape), .accepted = absl::StrCat("rank ", x.rank())});
  }
  Filter f;
  TESSERA_ASSIGN_OR_RETURN(f.groups, n.integer("group", 1));
  f.outputs = w.shape[0];
  f.channels = w.shape[1];
  f.kernel.assign(w.shape.begin() + 2, w.shape.end());
  TESSERA_ASSIGN_OR_RETURN(const auto kernel, n.integers("kernel_shape", f.kernel));
  if (kernel != f.kernel) {
    return n.invalid("attribute 'kernel_shape' differs from the weight",
                     {.attribute = "kernel_shape", .found = shapeText(kernel), .accepted = shapeText(f.kernel)});
  }
  // Every group reads its own part of the channels.
  if (f.groups < 1 || f.groups > x.shape[1] || x.shape[1] / f.groups != f.channels || x.shape[1] % f.groups != 0 ||
      f.outputs % f.groups != 0) {
    return n.invalid(absl::StrCat("input ", shapeText(x.shape), ", weight ", shapeText(w.shape), " and ", f.groups,
                                  " groups do not fit"),
                     {.attribute = "group",
                      .found = absl::StrCat(f.groups),
                      .accepted = "input channels = groups * weight's channels, outputs divisible by groups"});
  }
  for (int64_t size : f.kernel) {
    if (size < 1 || size > INT32_MAX) {
      return n.invalid("the kernel is empty or too large", {.attribute = "W", .found = shapeText(f.kernel)});
    }
  }
  return f;
}

Tensor convolve(Emitter& e, const Tensor& x, const Tensor& w, const Filter& f, const Window& window) {
  Shape shape = {x.shape[0], f.outputs};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  // Depthwise: each channel has one filter.
  const bool depthwise = f.channels == 1 && f.groups == x.shape[1] && f.outputs == f.groups && f.groups > 1;
  // linalg has named operations for two dimensions, which kernels recognize.
  if (window.rank() != 2 || (f.groups > 1 && !depthwise)) {
    return convolveGeneric(e, x, w, f, window,
                           f.groups > 1 ? Tensor{.dtype = x.dtype, .shape = shape} : e.zeros(x.dtype, shape));
  }
  auto type = mlir::RankedTensorType::get({2}, e.b.getI64Type());
  auto strides = mlir::DenseIntElementsAttr::get(type, window.strides);
  auto dilations = mlir::DenseIntElementsAttr::get(type, window.dilations);
  Value init = e.zeros(x.dtype, shape).value;
  if (depthwise) {
    Value filter = e.value(e.reshape(w, {f.groups, f.kernel[0], f.kernel[1]}));
    auto op = mlir::linalg::DepthwiseConv2DNchwChwOp::create(e.b, e.loc, mlir::TypeRange{init.getType()},
                                                             mlir::ValueRange{e.value(x), filter},
                                                             mlir::ValueRange{init}, strides, dilations);
    return Emitter::wrap(op->getResult(0), x.dtype);
  }
  auto op = mlir::linalg::Conv2DNchwFchwOp::create(e.b, e.loc, mlir::TypeRange{init.getType()},
                                                   mlir::ValueRange{e.value(x), e.value(w)}, mlir::ValueRange{init},
                                                   strides, dilations);
  return Emitter::wrap(op->getResult(0), x.dtype);
}

namespace {

absl::StatusOr<Tensor> paddedInput(Node& n, Emitter& e, const Tensor& x, const Window& window) {
  Shape shape = x.shape;
  for (size_t d = 0; d < window.rank(); ++d) shape[2 + d] += window.low[d] + window.high[d];
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  return padSpatial(e, x, window, e.scalars(x.dtype).constant(0));
}

}  // namespace

absl::StatusOr<Tensor> addBias(Node& n, Emitter& e, const Tensor& x, int input) {
  if (!n.has(input)) return x;
  const Tensor& bias = n.in(input);
  if (bias.shape != Shape{x.shape[1]}) {
    return n.invalid("the bias does not fit",
                     {.attribute = "B", .found = shapeText(bias.shape), .accepted = shapeText(Shape{x.shape[1]})});
  }
  Shape aligned(x.rank() - 1, 1);
  aligned[0] = x.shape[1];
  return e.elementwise(x.dtype, {x, e.reshape(bias, std::move(aligned))},
                       [](const Scalars& s, mlir::ValueRange v) { return s.add(v[0], v[1]); });
}

absl::StatusOr<Tensor> convolution(Node& n, Emitter& e, const Tensor& x, const Tensor& w) {
  TESSERA_ASSIGN_OR_RETURN(const Filter f, readFilter(n, x, w));
  std::vector<int64_t> spatial(x.shape.begin() + 2, x.shape.end());
  TESSERA_ASSIGN_OR_RETURN(Window window, readWindow(n, spatial, f.kernel, false));
  Shape shape = {x.shape[0], f.outputs};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  // Masks or pads along run-time dimensions; the rest is padded as usual.
  Tensor input = x;
  TESSERA_ASSIGN_OR_RETURN(auto extents,
                           resultExtentsOfWindow(n, e, input, window, [](const Scalars& s) { return s.constant(0); }));
  TESSERA_ASSIGN_OR_RETURN(const Tensor padded, paddedInput(n, e, input, window));
  Tensor result = convolve(e, padded, w, f, window);
  result.extents = std::move(extents);
  return result;
}

namespace {

Results lowerConv(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor result, convolution(n, e, n.in(0), n.in(1)));
  TESSERA_ASSIGN_OR_RETURN(Tensor biased, addBias(n, e, result, 2));
  biased.extents = result.extents;
  return {{std::move(biased)}};
}

}  // namespace

std::vector<Operator> convolutionOperators() {
  return {
      {"Conv", 1, 2, 3, lowerConv, kFloats, 3, INT_MAX, "", extentsByLowering},
      {"ConvTranspose", 1, 2, 3, lowerConvTranspose, kFloats, 3, INT_MAX, "", extentsByLowering},
  };
}

}  // namespace tessera::compiler
