// Cropping, padding and assembling images, and affine grids.
#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/window.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

/// Most elements of a block; each of them is unrolled.
constexpr int64_t kBlockElements = 1024;

/// Takes the middle of the input, padded with zeros if it is smaller than requested. An odd element is removed or added
/// at the end.
Results lowerCenterCropPad(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < x.rank(); ++d) axes.push_back(d);
  TESSERA_ASSIGN_OR_RETURN(axes, n.integers("axes", axes));
  TESSERA_ASSIGN_OR_RETURN(axes, n.normalizeAxes(axes, x.rank(), "axes"));
  TESSERA_ASSIGN_OR_RETURN(const auto sizes, n.constantIntegers(1, "shape"));
  if (sizes.size() != axes.size()) {
    return n.invalid("needs one size per axis", {.attribute = "shape",
                                                 .found = absl::StrCat(sizes.size(), " values"),
                                                 .accepted = absl::StrCat(axes.size(), " values")});
  }
  Shape shape = x.shape;
  for (size_t i = 0; i < axes.size(); ++i) shape[axes[i]] = sizes[i];
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(x.dtype, shape, ""))}};
  std::vector<int64_t> offsets(x.rank()), kept(x.rank()), strides(x.rank(), 1), low(x.rank()), high(x.rank());
  for (int64_t d = 0; d < x.rank(); ++d) {
    kept[d] = std::min(shape[d], x.shape[d]);
    offsets[d] = (x.shape[d] - kept[d]) / 2;
    low[d] = (shape[d] - kept[d]) / 2;
    high[d] = shape[d] - kept[d] - low[d];
  }
  if (x.elements() == 0) return {{e.zeros(x.dtype, shape)}};
  return {{e.pad(e.slice(x, offsets, kept, strides), low, high, e.scalars(x.dtype).constant(0))}};
}

/// Adds overlapping blocks: each element of the image is the sum of the block elements at its position. N x (C * block
/// elements) x blocks to N x C x image.
Results lowerCol2Im(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3, 3));
  TESSERA_ASSIGN_OR_RETURN(const auto image, n.constantIntegers(1, "image_shape"));
  TESSERA_ASSIGN_OR_RETURN(const auto block, n.constantIntegers(2, "block_shape"));
  if (image.empty() || block.size() != image.size() || image.size() > 3) {
    return n.invalid("image and block do not fit",
                     {.attribute = "block_shape", .found = shapeText(block), .accepted = "1 to 3 sizes in both"});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(image, x.dtype));
  TESSERA_RETURN_IF_ERROR(n.checkResult(block, x.dtype));
  TESSERA_ASSIGN_OR_RETURN(const Window window, readWindow(n, image, block, false));
  const int64_t elements = elementCount(block), blocks = elementCount(window.output);
  if (elements < 1 || elements > kBlockElements || x.shape[1] % elements != 0 || x.shape[2] != blocks ||
      x.elements() == 0) {
    return n.invalid("the blocks do not make up the image",
                     {.attribute = "input",
                      .found = shapeText(x.shape),
                      .accepted = absl::StrCat("a multiple of ", elements, " by ", blocks)});
  }
  const auto rank = static_cast<int64_t>(image.size());
  const int64_t channels = x.shape[1] / elements;
  Shape shape = {x.shape[0], channels}, split = {x.shape[0], channels};
  shape.insert(shape.end(), image.begin(), image.end());
  split.insert(split.end(), block.begin(), block.end());
  split.insert(split.end(), window.output.begin(), window.output.end());
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  const Tensor parts = e.reshape(x, split);
  // Blocks overlap, but one element of all blocks never covers a position twice, so the image is a sum over block
  // elements.
  Value source = e.value(parts);
  Tensor sum = e.zeros(x.dtype, shape);
  for (int64_t k = 0; k < elements; ++k) {
    std::vector<int64_t> within(rank);
    int64_t rest = k;
    for (int64_t d = rank; d-- > 0; rest /= block[d]) within[d] = rest % block[d];
    sum = e.elementwise(x.dtype, {sum}, [&](const Scalars& s, ValueRange v) {
      const Scalars wide = s.as(v1::DATA_TYPE_I64);
      auto index = [&](int64_t d) -> Value {
        return mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(d));
      };
      llvm::SmallVector<Value> from = {index(0), index(1)}, places;
      Value hit;
      for (int64_t d = 0; d < rank; ++d) {
        from.push_back(mlir::arith::ConstantIndexOp::create(s.b, s.loc, within[d]));
        // stride * place + within * dilation - low = coordinate
        Value shifted =
            wide.add(position(s, index(2 + d)), wide.integer(window.low[d] - within[d] * window.dilations[d]));
        Value stride = wide.integer(window.strides[d]);
        Value place = wide.div(shifted, stride);
        Value exact = wide.compare(Relation::kEqual, wide.mul(place, stride), shifted);
        exact = s.logicalAnd(exact, isInside(s, place, window.output[d]));
        hit = hit ? s.logicalAnd(hit, exact) : exact;
        places.push_back(clampedCoordinate(s, place, window.output[d]));
      }
      from.append(places);
      return s.select(hit, s.add(v[0], e.extract(s, source, from)), v[0]);
    });
  }
  return {{std::move(sum)}};
}

/// Multiplies theta by the positions of an image of the given size, from -1 to 1 along every dimension.
Results lowerAffineGrid(Node& n, Emitter& e) {
  const Tensor& theta = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const bool align_corners, n.flag("align_corners", false));
  TESSERA_ASSIGN_OR_RETURN(const auto size, n.constantIntegers(1, "size"));
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  if (spatial < 2 || spatial > 3 || theta.shape != Shape{size[0], spatial, spatial + 1}) {
    return n.invalid(
        "theta does not fit the size",
        {.attribute = "theta", .found = shapeText(theta.shape), .accepted = "N x 2 x 3 for 4 sizes, N x 3 x 4 for 5"});
  }
  Shape shape = {size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(spatial);
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, theta.dtype));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(theta.dtype, shape, ""))}};
  Value source = e.value(theta);
  return {{e.generate(theta.dtype, shape, [&](const Scalars& s, ValueRange at) {
    auto entry = [&](int64_t column) {
      return e.extract(s, source, {at[0], at.back(), mlir::arith::ConstantIndexOp::create(s.b, s.loc, column)});
    };
    Value sum = entry(spatial);
    for (int64_t d = 0; d < spatial; ++d) {
      // Column 0 is x, the last dimension.
      const int64_t length = size[size.size() - 1 - d];
      const auto count = static_cast<double>(length);
      Value place = s.as(v1::DATA_TYPE_I64).cast(position(s, at[spatial - d]), s.type);
      const double step = align_corners ? (length > 1 ? 2 / (count - 1) : 0) : 2 / count;
      const double start = align_corners ? (length > 1 ? -1 : 0) : 1 / count - 1;
      sum = s.fma(entry(d), s.fma(place, s.constant(step), s.constant(start)), sum);
    }
    return sum;
  })}};
}

}  // namespace

std::vector<Operator> imageOperators() {
  return {
      {"CenterCropPad", 18, 2, 2, lowerCenterCropPad},
      {"Col2Im", 18, 3, 3, lowerCol2Im, kNumbers},
      {"AffineGrid", 20, 2, 2, lowerAffineGrid, kFloats},
  };
}

}  // namespace tessera::compiler
