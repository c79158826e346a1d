// Convolutions over N x C x spatial... tensors with filters F x C/groups x kernel....
#include "compiler/import/ops/convolution.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/window.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::utils::IteratorType;

struct Filter {
  int64_t groups, outputs, channels;  ///< outputs: of all groups; channels: input channels of one group
  std::vector<int64_t> kernel;
};

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

/// Any rank, any grouping: out[n, g, f, o...] += x[n, g, c, o * stride + k * dilation...] * w[g, f, c, k...].
Tensor convolveGeneric(Emitter& e, const Tensor& x, const Tensor& w, const Filter& f, const Window& window,
                       const Tensor& start) {
  const auto s = static_cast<unsigned>(window.rank());
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

/// The convolution of an already padded input. Two-dimensional ones are named operations: later passes know them.
Tensor convolve(Emitter& e, const Tensor& x, const Tensor& w, const Filter& f, const Window& window) {
  Shape shape = {x.shape[0], f.outputs};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  const bool depthwise = f.channels == 1 && f.groups == x.shape[1] && f.outputs == f.groups && f.groups > 1;
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
  TESSERA_ASSIGN_OR_RETURN(const Window window, readWindow(n, spatial, f.kernel, false));
  Shape shape = {x.shape[0], f.outputs};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  TESSERA_ASSIGN_OR_RETURN(const Tensor padded, paddedInput(n, e, x, window));
  return convolve(e, padded, w, f, window);
}

namespace {

Results lowerConv(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor result, convolution(n, e, n.in(0), n.in(1)));
  TESSERA_ASSIGN_OR_RETURN(Tensor biased, addBias(n, e, result, 2));
  return {{std::move(biased)}};
}

/// Filters C x F/groups x k... as F x C/groups x k... with every kernel reversed.
Tensor flippedFilter(Emitter& e, const Tensor& w, int64_t groups) {
  const int64_t channels = w.shape[0] / groups, outputs = w.shape[1];
  Shape shape = w.shape;
  shape[0] = outputs * groups;
  shape[1] = channels;
  // Source of element [g * outputs + f, c, k...]: [g * channels + c, f, K - 1 - k...].
  if (w.constant) {
    const int64_t kernel = elementCount({w.shape.begin() + 2, w.shape.end()});
    const int64_t size = elementBytes(w.dtype);
    std::string bytes(w.constant->bytes.size(), '\0');
    for (int64_t at = 0; at < w.elements(); ++at) {
      const int64_t k = at % kernel, c = at / kernel % channels, f = at / kernel / channels;
      const int64_t g = f / outputs;
      const int64_t from = ((g * channels + c) * outputs + f % outputs) * kernel + kernel - 1 - k;
      std::copy_n(w.constant->bytes.data() + from * size, size, bytes.data() + at * size);
    }
    return Emitter::wrap(makeConstant(w.dtype, shape, std::move(bytes)));
  }
  Value source = e.value(w);
  return e.generate(w.dtype, shape, [&](const Scalars& s, mlir::ValueRange at) {
    namespace arith = mlir::arith;
    auto constant = [&](int64_t value) { return arith::ConstantIndexOp::create(s.b, s.loc, value).getResult(); };
    Value group = arith::DivUIOp::create(s.b, s.loc, at[0], constant(outputs));
    Value channel =
        arith::AddIOp::create(s.b, s.loc, arith::MulIOp::create(s.b, s.loc, group, constant(channels)), at[1]);
    llvm::SmallVector<Value> from = {channel, arith::RemUIOp::create(s.b, s.loc, at[0], constant(outputs))};
    for (size_t d = 2; d < shape.size(); ++d) {
      from.push_back(arith::SubIOp::create(s.b, s.loc, constant(shape[d] - 1), at[d]));
    }
    return e.extract(s, source, from);
  });
}

/// Padding and output size of a transposed convolution (the specification's two formulas).
absl::Status transposedSizes(Node& n, const std::vector<int64_t>& spatial, Window& window) {
  const size_t rank = spatial.size();
  TESSERA_ASSIGN_OR_RETURN(const auto pads, spatialAttribute(n, "pads", 2 * rank, 0, 0));
  TESSERA_ASSIGN_OR_RETURN(const auto extra, spatialAttribute(n, "output_padding", rank, 0, 0));
  TESSERA_ASSIGN_OR_RETURN(const auto wanted, spatialAttribute(n, "output_shape", rank, 0, 0));
  TESSERA_ASSIGN_OR_RETURN(const std::string auto_pad, n.text("auto_pad", "NOTSET"));
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  const auto extent = windowExtent(window);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t full = window.strides[d] * (spatial[d] - 1) + extra[d] + extent[d];
    int64_t low = auto_pad == "NOTSET" ? pads[d] : 0;
    int64_t high = auto_pad == "NOTSET" ? pads[rank + d] : 0;
    if (same || wanted[d] > 0) {
      const int64_t total = std::max<int64_t>(full - (wanted[d] > 0 ? wanted[d] : spatial[d] * window.strides[d]), 0);
      low = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    }
    window.low.push_back(low);
    window.high.push_back(high);
    window.output.push_back(wanted[d] > 0 ? wanted[d] : full - low - high);
    if (window.output[d] < 1 || spatial[d] < 1) {
      return n.invalid(absl::StrCat("spatial dimension ", d, " of the result is empty"),
                       {.attribute = "pads", .found = absl::StrCat(window.output[d]), .accepted = "1 or more"});
    }
  }
  return absl::OkStatus();
}

/// A convolution with stride 1 of the input spread out: stride - 1 zeros between its elements.
Results lowerConvTranspose(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  const Tensor& w = n.in(1);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  TESSERA_RETURN_IF_ERROR(n.requireRank(1, x.rank(), x.rank()));
  TESSERA_ASSIGN_OR_RETURN(const int64_t groups, n.integer("group", 1));
  std::vector<int64_t> spatial(x.shape.begin() + 2, x.shape.end());
  Window window;
  window.kernel.assign(w.shape.begin() + 2, w.shape.end());
  TESSERA_ASSIGN_OR_RETURN(const auto kernel, n.integers("kernel_shape", window.kernel));
  const bool empty = w.elements() == 0 || x.elements() == 0;
  if (kernel != window.kernel || groups < 1 || x.shape[1] != w.shape[0] || w.shape[0] % groups != 0 || empty) {
    return n.invalid(absl::StrCat("input ", shapeText(x.shape), " and weight ", shapeText(w.shape), " do not fit"),
                     {.attribute = "W",
                      .found = shapeText(w.shape),
                      .accepted = "input channels x outputs per group x kernel_shape"});
  }
  TESSERA_ASSIGN_OR_RETURN(window.strides, spatialAttribute(n, "strides", spatial.size(), 1, 1));
  TESSERA_ASSIGN_OR_RETURN(window.dilations, spatialAttribute(n, "dilations", spatial.size(), 1, 1));
  TESSERA_RETURN_IF_ERROR(transposedSizes(n, spatial, window));

  const auto extent = windowExtent(window);
  Shape spread = {x.shape[0], x.shape[1]}, result = {x.shape[0], w.shape[1] * groups};
  llvm::SmallVector<mlir::OpFoldResult> offsets(2, e.b.getIndexAttr(0)), sizes, strides(2, e.b.getIndexAttr(1));
  for (int64_t dim : x.shape) sizes.push_back(e.b.getIndexAttr(dim));
  std::vector<int64_t> place = {0, 0}, crop = {0, 0};
  for (size_t d = 0; d < spatial.size(); ++d) {
    // Window o reads [o, o + extent) of the spread input, whose element i sits at i * stride + extent - 1 - low.
    const int64_t first = extent[d] - 1 - window.low[d];
    crop.push_back(std::max<int64_t>(-first, 0));
    place.push_back(std::max<int64_t>(first, 0));
    const int64_t need = window.output[d] + extent[d] - 1 + crop.back();
    spread.push_back(std::max(need, place.back() + (spatial[d] - 1) * window.strides[d] + 1));
    result.push_back(window.output[d]);
    offsets.push_back(e.b.getIndexAttr(place.back()));
    strides.push_back(e.b.getIndexAttr(window.strides[d]));
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(spread, x.dtype));
  TESSERA_RETURN_IF_ERROR(n.checkResult(result, x.dtype));
  Tensor zeros = e.zeros(x.dtype, spread);
  Tensor inserted = Emitter::wrap(
      mlir::tensor::InsertSliceOp::create(e.b, e.loc, e.value(x), zeros.value, offsets, sizes, strides), x.dtype);
  Shape read = {x.shape[0], x.shape[1]};
  for (size_t d = 0; d < spatial.size(); ++d) read.push_back(window.output[d] + extent[d] - 1);
  Tensor input = e.slice(inserted, crop, read, std::vector<int64_t>(x.rank(), 1));

  Window unit = window;
  unit.strides.assign(spatial.size(), 1);
  const Filter f{groups, w.shape[1] * groups, w.shape[0] / groups, window.kernel};
  Tensor product = convolve(e, input, flippedFilter(e, w, groups), f, unit);
  TESSERA_ASSIGN_OR_RETURN(Tensor biased, addBias(n, e, product, 2));
  return {{std::move(biased)}};
}

}  // namespace

std::vector<Operator> convolutionOperators() {
  return withExtents(batchExtents, {
                                       {"Conv", 1, 2, 3, lowerConv, kFloats, 3},
                                       {"ConvTranspose", 1, 2, 3, lowerConvTranspose, kFloats, 3},
                                   });
}

}  // namespace tessera::compiler
