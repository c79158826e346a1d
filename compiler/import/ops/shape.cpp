// Operators that move or rename elements without computing.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/bounded_concat.h"
#include "compiler/import/ops/dynamic_shape.h"
#include "compiler/import/ops/dynamic_slice.h"
#include "compiler/import/ops/reshape.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::ValueRange;

/// Returns an operand that was an attribute in old versions and is a constant input since `input_since`.
absl::StatusOr<std::optional<std::vector<int64_t>>> listOperand(Node& n, const std::string& name, int input,
                                                                int64_t input_since) {
  if (n.opset() < input_since) {
    if (!n.hasAttribute(name)) return std::nullopt;
    TESSERA_ASSIGN_OR_RETURN(auto values, n.integers(name));
    return std::optional(std::move(values));
  }
  if (!n.has(input)) return std::nullopt;
  TESSERA_ASSIGN_OR_RETURN(auto values, n.constantIntegers(input, name));
  return std::optional(std::move(values));
}

Results lowerSqueeze(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(auto given, listOperand(n, "axes", 1, 13));
  // An empty list of axes counts as none.
  if (given && given->empty()) given.reset();  // as in ONNX Runtime: all axes of size 1
  std::vector<bool> drop(x.shape.size(), false);
  if (given) {
    TESSERA_ASSIGN_OR_RETURN(const auto axes, n.normalizeAxes(*given, x.rank(), "axes"));
    for (int64_t axis : axes) {
      if (x.shape[axis] != 1) {
        if (x.extents.contains(axis)) return refuseExtent(n, 0, axis, "it may differ from 1, so it cannot be dropped");
        return n.invalid(absl::StrCat("dimension ", axis, " of ", shapeText(x.shape), " is not 1"),
                         {.attribute = "axes", .found = absl::StrCat(x.shape[axis]), .accepted = "1"});
      }
      drop[axis] = true;
    }
  }
  Shape shape;
  // Dimensions behind a dropped one move to the front, and extents with them.
  std::map<int64_t, mlir::Value> extents;
  for (size_t d = 0; d < drop.size(); ++d) {
    auto extent = x.extents.find(static_cast<int64_t>(d));
    const bool bounded = extent != x.extents.end();
    if (given ? drop[d] : x.shape[d] == 1) {
      // The model is invalid at size 0, which only a range that includes 0 allows.
      const auto one = std::pair<int64_t, int64_t>(1, 1);
      if (bounded && n.bounds(extentOf(x, extent->first)) != one)
        return refuseExtent(n, 0, extent->first, "it may be 0, and cannot be dropped");
      continue;
    }
    if (bounded) extents[static_cast<int64_t>(shape.size())] = extent->second;
    shape.push_back(x.shape[d]);
  }
  Tensor result = e.reshape(x, std::move(shape));
  result.extents = std::move(extents);
  return {{std::move(result)}};
}

Results lowerUnsqueeze(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const auto given, listOperand(n, "axes", 1, 13));
  if (!given) return n.invalid("no axes given", {.attribute = "axes", .accepted = "a list of axes"});
  const int64_t rank = x.rank() + static_cast<int64_t>(given->size());
  TESSERA_ASSIGN_OR_RETURN(const auto axes, n.normalizeAxes(*given, rank, "axes"));
  Shape shape(rank, 0);
  for (int64_t axis : axes) shape[axis] = 1;
  // Dimensions that exist fill the gaps between new ones in order.
  int64_t next = 0;
  std::map<int64_t, mlir::Value> extents;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::find(axes.begin(), axes.end(), d) != axes.end()) continue;
    if (auto extent = x.extents.find(next); extent != x.extents.end()) extents[d] = extent->second;
    shape[d] = x.shape[next++];
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  Tensor result = e.reshape(x, std::move(shape));
  result.extents = std::move(extents);
  return {{std::move(result)}};
}

Results lowerTranspose(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  std::vector<int64_t> reversed(x.rank());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  TESSERA_ASSIGN_OR_RETURN(auto permutation, n.integers("perm", reversed));
  TESSERA_ASSIGN_OR_RETURN(permutation, n.normalizeAxes(permutation, x.rank(), "perm"));
  if (permutation.size() != x.shape.size()) {
    return n.invalid("the permutation does not fit", {.attribute = "perm",
                                                      .found = absl::StrCat(permutation.size(), " axes"),
                                                      .accepted = absl::StrCat(x.rank(), " axes")});
  }
  Tensor result = e.transpose(x, permutation);
  result.extents.clear();
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (auto extent = x.extents.find(permutation[d]); extent != x.extents.end()) result.extents[d] = extent->second;
  }
  return {{std::move(result)}};
}

Results lowerConcat(Node& n, Emitter& e) {
  const Tensor& first = n.in(0);
  if (n.opset() < 4 && !n.hasAttribute("axis")) return n.unsupported("version 1 without axis");
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", std::nullopt, first.rank()));
  Shape shape = first.shape;
  shape[axis] = 0;
  for (const Tensor& part : n.inputs()) {
    Shape rest = part.shape;
    // All dimensions except the joined one must agree.
    if (part.rank() == first.rank()) rest[axis] = first.shape[axis];
    if (rest != first.shape || part.dtype != first.dtype) {
      return n.invalid(
          absl::StrCat("inputs ", shapeText(first.shape), " and ", shapeText(part.shape), " cannot be joined"),
          {.found = absl::StrCat(typeName(part.dtype), " of ", shapeText(part.shape)),
           .accepted =
               absl::StrCat(typeName(first.dtype), " of ", shapeText(first.shape), " except along axis ", axis)});
    }
    shape[axis] += part.shape[axis];
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, first.dtype));
  if (n.numInputs() == 1) return {{first}};
  const int last = n.numInputs() - 1;
  Tensor beside = n.in(last);
  // Run-time sizes beside the axis must agree, too.
  beside.extents.erase(axis);
  for (int i = 0; i < last; ++i) {
    for (int64_t d = 0; d < first.rank(); ++d) {
      const auto own = n.in(i).extents.find(d);
      const auto wanted = beside.extents.find(d);
      const bool bounded = own != n.in(i).extents.end(), other_bounded = wanted != beside.extents.end();
      if (d == axis || (!bounded && !other_bounded)) continue;
      if (bounded && other_bounded && equalInAcceptedRuns(n, own->second, wanted->second)) continue;
      return refuseExtent(n, bounded ? i : last, d,
                          absl::StrCat("input ", bounded ? last : i, " may have another extent"));
    }
  }
  Tensor result = joined(e, n.inputs(), axis);
  result.extents.insert(beside.extents.begin(), beside.extents.end());
  return {{std::move(result)}};
}

Results lowerExpand(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const SizeList sizes, n.sizes(1, "shape"));
  const std::vector<int64_t>& wanted = sizes.most;
  TESSERA_RETURN_IF_ERROR(n.checkResult(wanted, x.dtype));
  auto shape = broadcastShape(x.shape, wanted);
  if (!shape) {
    return n.invalid("the shapes do not broadcast",
                     {.attribute = "shape", .found = shapeText(wanted), .accepted = shapeText(x.shape)});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(*shape, x.dtype));
  Tensor result = e.broadcast(x, *shape);
  result.extents.clear();
  // Extents of the input stay if the new shape asks for 1 or the same size.
  for (const auto& [dim, extent] : x.extents) {
    const int64_t from_last = x.rank() - dim;
    const auto given = static_cast<int64_t>(wanted.size()) - from_last;
    const bool same = given >= 0 && sizes.follows[given] && n.sameExtent(extent, n.sizeAt(e, 1, given).value);
    if (given >= 0 && wanted[given] != 1 && !same) {
      return refuseExtent(n, 0, dim, absl::StrCat("the new shape requires ", wanted[given], " there"));
    }
    result.extents[result.rank() - from_last] = extent;
  }
  // Extents of the new shape apply where the input has 1 or nothing.
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t dim = result.rank() - static_cast<int64_t>(wanted.size() - i);
    const int64_t from = dim - (result.rank() - x.rank());
    if (!sizes.follows[i] || result.extents.contains(dim)) continue;
    if (from >= 0 && x.shape[from] != 1) {
      return n.unsupported(absl::StrCat("dimension ", i, " of the new shape is known only at run time, input 0 has ",
                                        x.shape[from], " there"),
                           {.attribute = "shape", .found = shapeText(wanted), .accepted = "1, or the same extent"});
    }
    result.extents[dim] = n.sizeAt(e, 1, static_cast<int64_t>(i)).value;
  }
  return {{std::move(result)}};
}

/// Each dimension d becomes repeats[d] x d, broadcast along the first, and both are merged.
Results lowerTile(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  if (n.opset() < 6) return n.unsupported("version 1", {.accepted = "version 6 or newer"});
  TESSERA_ASSIGN_OR_RETURN(const SizeList sizes, n.sizes(1, "repeats"));
  const std::vector<int64_t>& repeats = sizes.most;
  TESSERA_RETURN_IF_ERROR(n.checkResult(repeats, x.dtype));
  if (repeats.size() != x.shape.size()) {
    return n.invalid("repeats does not fit", {.attribute = "repeats",
                                              .found = absl::StrCat(repeats.size(), " values"),
                                              .accepted = absl::StrCat(x.rank(), " values")});
  }
  bool live = false;  // the count or the dimension is a range
  for (int64_t d = 0; d < x.rank(); ++d) live |= sizes.follows[d] || (x.extents.contains(d) && repeats[d] != 1);
  if (live) {
    std::vector<Tensor> counts;
    Shape shape = x.shape;
    for (int64_t d = 0; d < x.rank(); ++d) {
      shape[d] *= repeats[d];
      counts.push_back(sizes.follows[d] ? n.sizeAt(e, 1, d) : scalarI64(repeats[d]));
    }
    TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
    if (elementCount(shape) > 0) return {{tileDynamic(e, x, shape, counts)}};
  }
  Shape split, spread, result;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] != 1) {
      split.push_back(1);
      spread.push_back(repeats[d]);
    }
    split.push_back(x.shape[d]);
    spread.push_back(x.shape[d]);
    // Both factors are below 2^31, as checked.
    result.push_back(repeats[d] * x.shape[d]);
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(result, x.dtype));
  Tensor tiled = e.reshape(e.broadcast(e.reshape(x, split), spread), result);
  tiled.extents = x.extents;
  return {{std::move(tiled)}};
}

Results lowerIdentity(Node& n, Emitter& e) { return {{n.in(0)}}; }

/// Inference: returns the input itself, and a mask of ones.
Results lowerDropout(Node& n, Emitter& e) {
  n.ignore("ratio");
  n.ignore("seed");
  n.ignore("is_test");
  if (n.has(2)) {
    TESSERA_ASSIGN_OR_RETURN(const ConstantPtr training, n.constantInput(2, "training_mode"));
    bool drops = training->elements() == 1 && training->integerAt(0) != 0;
    if (drops && n.has(1)) {
      TESSERA_ASSIGN_OR_RETURN(const ConstantPtr ratio, n.constantInput(1, "ratio"));
      drops = ratio->elements() != 1 || ratio->realAt(0) != 0;
    }
    if (drops) {
      return n.unsupported("training mode", {.attribute = "training_mode",
                                             .found = "true",
                                             .accepted = "false",
                                             .remedy = "export the model for inference"});
    }
  }
  TESSERA_RETURN_IF_ERROR(refuseExtents(n, 1, "one number"));
  if (!n.wants(1)) return {{n.in(0)}};
  const v1::DataType mask = n.opset() >= 10 ? v1::DATA_TYPE_BOOL : n.in(0).dtype;
  TESSERA_RETURN_IF_ERROR(n.checkResult(n.in(0).shape, mask));
  Tensor ones = e.filled(e.scalars(mask).constant(1), mask, n.in(0).shape);
  ones.extents = n.in(0).extents;
  return {{n.in(0), std::move(ones)}};
}

Results lowerShape(Node& n, Emitter& e) {
  const Tensor x = withoutWindowExtents({n.in(0)})[0];
  TESSERA_ASSIGN_OR_RETURN(int64_t start, n.integer("start", 0));
  TESSERA_ASSIGN_OR_RETURN(int64_t end, n.integer("end", x.rank()));
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + x.rank() : at, 0, x.rank()); };
  start = clamp(start);
  end = std::max(clamp(end), start);
  const bool bounded = std::any_of(x.extents.begin(), x.extents.end(),
                                   [&](const auto& extent) { return extent.first >= start && extent.first < end; });
  if (!bounded) return {{Emitter::wrap(integerConstant({x.shape.begin() + start, x.shape.begin() + end}))}};
  std::vector<Tensor> extents;
  for (int64_t d = start; d < end; ++d) extents.push_back(e.reshape(extentOf(x, d), {1}));
  return {{extents.size() == 1 ? extents[0] : e.concat(extents, 0)}};
}

Results lowerSize(Node& n, Emitter& e) {
  const Tensor x = withoutWindowExtents({n.in(0)})[0];
  if (x.extents.empty()) return {{scalarI64(x.elements())}};
  int64_t known = 1;
  for (int64_t d = 0; d < x.rank(); ++d) known *= x.extents.contains(d) ? 1 : x.shape[d];
  Tensor size = scalarI64(known);
  for (const auto& [dim, extent] : x.extents) {
    size = e.elementwise(v1::DATA_TYPE_I64, {size, extentOf(x, dim)},
                         [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); });
  }
  return {{std::move(size)}};
}

absl::StatusOr<int64_t> blockSize(Node& n) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 4, 4));
  TESSERA_ASSIGN_OR_RETURN(const int64_t block, n.integer("blocksize"));
  if (block < 1 || block > INT16_MAX) {
    return n.invalid("bad block size",
                     {.attribute = "blocksize", .found = absl::StrCat(block), .accepted = "1 to 32767"});
  }
  return block;
}

/// Sets the extents when blocks of pixels become channels, or the reverse: rows and columns of pixels keep their order.
Results withBlockExtents(Node& n, Emitter& e, Tensor result, int64_t block, bool to_channels) {
  result.extents.clear();
  for (const auto& [dim, extent] : n.in(0).extents) {
    if (dim == 1) return refuseExtent(n, 0, dim, "channels are rearranged");
    const Tensor size = extentOf(n.in(0), dim);
    if (dim == 0) {
      setExtent(result, dim, size);
    } else if (!to_channels) {
      setExtent(result, dim, multiplied(e, size, block));
    } else {
      const Tensor blocks = dividedExtent(e, size, block);
      if (!n.divides(block, extent) &&
          !n.makeEqualForMultiples(extent, multiplied(e, blocks, block).value, "the image can be cut in blocks")) {
        return refuseExtent(n, 0, dim, "not every size of it can be cut in blocks");
      }
      setExtent(result, dim, blocks);
    }
  }
  return {{std::move(result)}};
}

Results lowerDepthToSpace(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t block, blockSize(n));
  TESSERA_ASSIGN_OR_RETURN(const std::string mode, n.text("mode", "DCR"));
  const Shape& s = n.in(0).shape;
  if (s[1] % (block * block) != 0 || (mode != "DCR" && mode != "CRD")) {
    return n.invalid("channels are not divisible by the squared block size, or the mode is unknown",
                     {.attribute = "mode",
                      .found = absl::StrCat(mode, ", ", s[1], " channels"),
                      .accepted = "DCR or CRD, channels divisible by blocksize * blocksize"});
  }
  const int64_t depth = s[1] / (block * block);
  const Shape result = {s[0], depth, s[2] * block, s[3] * block};
  if (mode == "DCR") {
    Tensor split = e.reshape(n.in(0), {s[0], block, block, depth, s[2], s[3]});
    return withBlockExtents(n, e, e.reshape(e.transpose(split, {0, 3, 4, 1, 5, 2}), result), block, false);
  }
  Tensor split = e.reshape(n.in(0), {s[0], depth, block, block, s[2], s[3]});
  return withBlockExtents(n, e, e.reshape(e.transpose(split, {0, 1, 4, 2, 5, 3}), result), block, false);
}

Results lowerSpaceToDepth(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t block, blockSize(n));
  const Shape& s = n.in(0).shape;
  if (s[2] % block != 0 || s[3] % block != 0) {
    return n.invalid("height or width is not divisible by the block size",
                     {.attribute = "blocksize", .found = shapeText(s), .accepted = "multiples of the block size"});
  }
  Tensor split = e.reshape(n.in(0), {s[0], s[1], s[2] / block, block, s[3] / block, block});
  Tensor result =
      e.reshape(e.transpose(split, {0, 3, 5, 1, 2, 4}), {s[0], s[1] * block * block, s[2] / block, s[3] / block});
  return withBlockExtents(n, e, std::move(result), block, true);
}

}  // namespace

std::vector<Operator> shapeOperators() {
  return withExtents(extentsByLowering, {
                                            {"Reshape", 1, 1, 2, lowerReshape, kStored},
                                            {"Flatten", 1, 1, 1, lowerFlatten, kStored},
                                            {"Squeeze", 1, 1, 2, lowerSqueeze, kStored},
                                            {"Unsqueeze", 1, 1, 2, lowerUnsqueeze, kStored},
                                            {"Transpose", 1, 1, 1, lowerTranspose, kStored},
                                            {"Concat", 1, 1, kVariadic, lowerConcat},
                                            {"Expand", 8, 2, 2, lowerExpand},
                                            {"Tile", 1, 2, 3, lowerTile},
                                            {"Identity", 1, 1, 1, lowerIdentity, kStored},
                                            {"Dropout", 1, 1, 3, lowerDropout},
                                            {"Shape", 1, 1, 1, lowerShape, kStored},
                                            {"Size", 1, 1, 1, lowerSize, kStored},
                                            {"DepthToSpace", 1, 1, 1, lowerDepthToSpace},
                                            {"SpaceToDepth", 1, 1, 1, lowerSpaceToDepth},
                                        });
}

}  // namespace tessera::compiler
