// Operators that move or rename elements without computing.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"

namespace tessera::compiler {
namespace {

/// An operand that was an attribute in old versions and is a constant input since `input_since`.
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

Results lowerReshape(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const auto wanted, listOperand(n, "shape", 1, 5));
  if (!wanted) return n.invalid("no shape given", {.attribute = "shape", .accepted = "a list of dimensions"});
  bool allow_zero = false;
  if (n.opset() >= 14) {
    TESSERA_ASSIGN_OR_RETURN(allow_zero, n.flag("allowzero", false));
  }
  Shape shape = *wanted;
  std::optional<size_t> inferred;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !allow_zero && d < x.shape.size()) shape[d] = x.shape[d];
    if (shape[d] != -1) continue;
    if (inferred) return n.invalid("two dimensions are -1", {.attribute = "shape", .found = shapeText(*wanted)});
    inferred = d;
    shape[d] = 1;
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  if (inferred) {
    const int64_t rest = elementCount(shape);
    shape[*inferred] = rest == 0 ? 0 : x.elements() / rest;
  }
  if (elementCount(shape) != x.elements()) {
    return n.invalid(absl::StrCat("cannot reshape ", shapeText(x.shape), " to ", shapeText(*wanted)),
                     {.attribute = "shape",
                      .found = shapeText(*wanted),
                      .accepted = absl::StrCat("shapes of ", x.elements(), " elements")});
  }
  return {{e.reshape(x, std::move(shape))}};
}

Results lowerFlatten(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(int64_t axis, n.integer("axis", 1));
  if (axis != x.rank()) {
    TESSERA_ASSIGN_OR_RETURN(axis, n.normalizeAxis(axis, x.rank(), "axis"));
  }
  return {{e.reshape(x, {elementCount({x.shape.begin(), x.shape.begin() + axis}),
                         elementCount({x.shape.begin() + axis, x.shape.end()})})}};
}

Results lowerSqueeze(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const auto given, listOperand(n, "axes", 1, 13));
  std::vector<bool> drop(x.shape.size(), false);
  if (given) {
    TESSERA_ASSIGN_OR_RETURN(const auto axes, n.normalizeAxes(*given, x.rank(), "axes"));
    for (int64_t axis : axes) {
      if (x.shape[axis] != 1) {
        return n.invalid(absl::StrCat("dimension ", axis, " of ", shapeText(x.shape), " is not 1"),
                         {.attribute = "axes", .found = absl::StrCat(x.shape[axis]), .accepted = "1"});
      }
      drop[axis] = true;
    }
  }
  Shape shape;
  for (size_t d = 0; d < drop.size(); ++d) {
    if (given ? !drop[d] : x.shape[d] != 1) shape.push_back(x.shape[d]);
  }
  return {{e.reshape(x, std::move(shape))}};
}

Results lowerUnsqueeze(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const auto given, listOperand(n, "axes", 1, 13));
  if (!given) return n.invalid("no axes given", {.attribute = "axes", .accepted = "a list of axes"});
  const int64_t rank = x.rank() + static_cast<int64_t>(given->size());
  TESSERA_ASSIGN_OR_RETURN(const auto axes, n.normalizeAxes(*given, rank, "axes"));
  Shape shape(rank, 0);
  for (int64_t axis : axes) shape[axis] = 1;
  size_t next = 0;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) shape[d] = x.shape[next++];
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  return {{e.reshape(x, std::move(shape))}};
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
  return {{e.transpose(x, permutation)}};
}

Results lowerConcat(Node& n, Emitter& e) {
  const Tensor& first = n.in(0);
  if (n.opset() < 4 && !n.hasAttribute("axis")) return n.unsupported("version 1 without axis");
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", std::nullopt, first.rank()));
  Shape shape = first.shape;
  shape[axis] = 0;
  for (const Tensor& part : n.inputs()) {
    Shape rest = part.shape;
    if (part.rank() == first.rank()) rest[axis] = first.shape[axis];
    if (rest != first.shape || part.dtype != first.dtype) {
      return n.invalid(
          absl::StrCat("inputs ", shapeText(first.shape), " and ", shapeText(part.shape), " cannot be joined"),
          {.found = absl::StrCat(typeName(part.dtype), " of ", shapeText(part.shape)),
           .accepted = absl::StrCat(typeName(first.dtype), " of ", shapeText(first.shape), " but for axis ", axis)});
    }
    shape[axis] += part.shape[axis];
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, first.dtype));
  if (n.numInputs() == 1) return {{first}};
  return {{e.concat(n.inputs(), axis)}};
}

Results lowerExpand(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const auto wanted, n.constantIntegers(1, "shape"));
  TESSERA_RETURN_IF_ERROR(n.checkResult(wanted, x.dtype));
  auto shape = broadcastShape(x.shape, wanted);
  if (!shape) {
    return n.invalid("the shapes do not broadcast",
                     {.attribute = "shape", .found = shapeText(wanted), .accepted = shapeText(x.shape)});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(*shape, x.dtype));
  return {{e.broadcast(x, *shape)}};
}

/// Each dimension d becomes repeats[d] x d, broadcast along the first, and the two are merged.
Results lowerTile(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  if (n.opset() < 6) return n.unsupported("version 1", {.accepted = "version 6 or newer"});
  TESSERA_ASSIGN_OR_RETURN(const auto repeats, n.constantIntegers(1, "repeats"));
  TESSERA_RETURN_IF_ERROR(n.checkResult(repeats, x.dtype));
  if (repeats.size() != x.shape.size()) {
    return n.invalid("repeats does not fit", {.attribute = "repeats",
                                              .found = absl::StrCat(repeats.size(), " values"),
                                              .accepted = absl::StrCat(x.rank(), " values")});
  }
  Shape split, spread, result;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] != 1) {
      split.push_back(1);
      spread.push_back(repeats[d]);
    }
    split.push_back(x.shape[d]);
    spread.push_back(x.shape[d]);
    // Both factors were checked to be below 2^31.
    result.push_back(repeats[d] * x.shape[d]);
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(result, x.dtype));
  return {{e.reshape(e.broadcast(e.reshape(x, split), spread), result)}};
}

Results lowerIdentity(Node& n, Emitter& e) { return {{n.in(0)}}; }

/// Inference: the input itself, and a mask of ones.
Results lowerDropout(Node& n, Emitter& e) {
  n.ignore("ratio");
  n.ignore("seed");
  n.ignore("is_test");
  if (n.has(2)) {
    TESSERA_ASSIGN_OR_RETURN(const ConstantPtr training, n.constantInput(2, "training_mode"));
    if (training->elements() == 1 && training->integerAt(0) != 0) {
      return n.unsupported("training mode", {.attribute = "training_mode",
                                             .found = "true",
                                             .accepted = "false",
                                             .fix = "export the model for inference"});
    }
  }
  if (!n.wants(1)) return {{n.in(0)}};
  const v1::DataType mask = n.opset() >= 10 ? v1::DATA_TYPE_BOOL : n.in(0).dtype;
  TESSERA_RETURN_IF_ERROR(n.checkResult(n.in(0).shape, mask));
  return {{n.in(0), e.filled(e.scalars(mask).constant(1), mask, n.in(0).shape)}};
}

Results lowerShape(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(int64_t start, n.integer("start", 0));
  TESSERA_ASSIGN_OR_RETURN(int64_t end, n.integer("end", x.rank()));
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + x.rank() : at, 0, x.rank()); };
  start = clamp(start);
  end = std::max(clamp(end), start);
  return {{Emitter::wrap(integerConstant({x.shape.begin() + start, x.shape.begin() + end}))}};
}

Results lowerSize(Node& n, Emitter& e) {
  return {{Emitter::wrap(reshaped(integerConstant({n.in(0).elements()}), {}))}};
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
    return {{e.reshape(e.transpose(split, {0, 3, 4, 1, 5, 2}), result)}};
  }
  Tensor split = e.reshape(n.in(0), {s[0], depth, block, block, s[2], s[3]});
  return {{e.reshape(e.transpose(split, {0, 1, 4, 2, 5, 3}), result)}};
}

Results lowerSpaceToDepth(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t block, blockSize(n));
  const Shape& s = n.in(0).shape;
  if (s[2] % block != 0 || s[3] % block != 0) {
    return n.invalid("height or width is not divisible by the block size",
                     {.attribute = "blocksize", .found = shapeText(s), .accepted = "multiples of the block size"});
  }
  Tensor split = e.reshape(n.in(0), {s[0], s[1], s[2] / block, block, s[3] / block, block});
  return {
      {e.reshape(e.transpose(split, {0, 3, 5, 1, 2, 4}), {s[0], s[1] * block * block, s[2] / block, s[3] / block})}};
}

}  // namespace

std::vector<Operator> shapeOperators() {
  return {
      {"Reshape", 1, 1, 2, lowerReshape},
      {"Flatten", 1, 1, 1, lowerFlatten},
      {"Squeeze", 1, 1, 2, lowerSqueeze},
      {"Unsqueeze", 1, 1, 2, lowerUnsqueeze},
      {"Transpose", 1, 1, 1, lowerTranspose},
      {"Concat", 1, 1, kVariadic, lowerConcat},
      {"Expand", 8, 2, 2, lowerExpand},
      {"Tile", 1, 2, 3, lowerTile},
      {"Identity", 1, 1, 1, lowerIdentity},
      {"Dropout", 1, 1, 3, lowerDropout},
      {"Shape", 1, 1, 1, lowerShape},
      {"Size", 1, 1, 1, lowerSize},
      {"DepthToSpace", 1, 1, 1, lowerDepthToSpace},
      {"SpaceToDepth", 1, 1, 1, lowerSpaceToDepth},
  };
}

}  // namespace tessera::compiler
