// Normalizations over channel groups and over the last dimensions, alone and fused with preceding operations.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/ops/indexing.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

Tensor sum(Emitter& e, const Tensor& x, const Tensor& y) {
  return e.elementwise(x.dtype, {x, y}, [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
}

/// Checks that a scale or bias broadcasts to x.
absl::Status requireBroadcast(Node& n, int input, const Shape& shape) {
  if (!n.has(input)) return absl::OkStatus();
  auto together = broadcastShape(shape, n.in(input).shape);
  if (together && *together == shape) return absl::OkStatus();
  return n.invalid(absl::StrCat("input ", input, " does not fit"), {.attribute = absl::StrCat("input ", input),
                                                                    .found = shapeText(n.in(input).shape),
                                                                    .accepted = shapeText(shape)});
}

std::vector<int64_t> dimsFrom(int64_t axis, int64_t rank) {
  std::vector<int64_t> dims(rank - axis);
  std::iota(dims.begin(), dims.end(), axis);
  return dims;
}

/// Returns the wider one of a tensor's type and the type of its statistics.
v1::DataType stashed(v1::DataType type, v1::DataType stash) {
  return elementBytes(stash) > elementBytes(type) ? stash : type;
}

/// Computes y = normalized * scale + bias in x's type and converts it; scale and bias may be absent.
Tensor scaled(Emitter& e, const Tensor& normalized, const Tensor* scale, const Tensor* bias, v1::DataType to) {
  std::vector<Tensor> operands = {normalized};
  if (scale) operands.push_back(e.cast(*scale, normalized.dtype));
  if (bias) operands.push_back(e.cast(*bias, normalized.dtype));
  Tensor y = e.elementwise(normalized.dtype, operands, [&](const Scalars& s, ValueRange v) {
    Value x = scale ? s.mul(v[0], v[1]) : v[0];
    return bias ? s.add(x, v.back()) : x;
  });
  return e.cast(y, to);
}

struct Normalized {
  Tensor y, mean, inverse;  ///< no mean for a root mean square
};

/// Normalizes x over its dimensions from `axis` on; `centred`: subtracts the mean.
Normalized normalize(Emitter& e, const Tensor& x, int64_t axis, double epsilon, bool centred) {
  const std::vector<int64_t> dims = dimsFrom(axis, x.rank());
  Normalized result;
  Tensor spread;
  Tensor from = x;
  if (centred) {
    Moments m = moments(e, x, dims);
    result.mean = m.mean;
    from = m.centered;
    spread = m.variance;
  } else {
    spread = reduceKeepingDims(e, x, dims, Reduction::kMeanSquare);
  }
  result.inverse = inverseDeviation(e, spread, epsilon);
  result.y =
      e.elementwise(x.dtype, {from, result.inverse}, [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); });
  return result;
}

Results lowerRmsNormalization(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, x.rank()));
  TESSERA_ASSIGN_OR_RETURN(const double epsilon, n.real("epsilon", 1e-5));
  TESSERA_ASSIGN_OR_RETURN(const v1::DataType stash, n.dataType("stash_type", v1::DATA_TYPE_F32));
  TESSERA_RETURN_IF_ERROR(requireBroadcast(n, 1, x.shape));
  const Normalized result = normalize(e, e.cast(x, stashed(x.dtype, stash)), axis, epsilon, /*centred=*/false);
  return {{scaled(e, result.y, &n.in(1), nullptr, n.in(1).dtype), result.inverse}};
}

/// Statistics over the channels of a group and all spatial dimensions. There is one scale and bias per channel; in
/// versions 18 to 20 one per group.
Results lowerGroupNormalization(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2));
  TESSERA_ASSIGN_OR_RETURN(const double epsilon, n.real("epsilon", 1e-5));
  TESSERA_ASSIGN_OR_RETURN(const int64_t groups, n.integer("num_groups"));
  v1::DataType stash = v1::DATA_TYPE_F32;
  if (n.opset() >= 21) {
    TESSERA_ASSIGN_OR_RETURN(stash, n.dataType("stash_type", v1::DATA_TYPE_F32));
  }
  const int64_t channels = x.shape[1];
  if (groups < 1 || channels % groups != 0 || x.elements() == 0) {
    return n.invalid(
        "channels are not divisible by the groups",
        {.attribute = "num_groups", .found = absl::StrCat(groups), .accepted = absl::StrCat("divisors of ", channels)});
  }
  const int64_t per = n.opset() >= 21 ? channels : groups;
  for (int i : {1, 2}) {
    if (n.in(i).shape == Shape{per}) continue;
    return n.invalid("scale or bias does not fit", {.attribute = i == 1 ? "scale" : "bias",
                                                    .found = shapeText(n.in(i).shape),
                                                    .accepted = absl::StrCat(per, " elements")});
  }
  const Tensor wide = e.cast(x, stashed(x.dtype, stash));
  const int64_t each = channels / groups;
  // Merges the spatial dimensions unless one of them is bounded.
  Shape split = {x.shape[0], groups, each};
  const bool whole = x.extents.size() == x.extents.count(0);
  if (whole) split.push_back(x.elements() / (x.shape[0] * channels));
  if (!whole) split.insert(split.end(), x.shape.begin() + 2, x.shape.end());
  Tensor grouped = e.reshape(wide, split);
  for (const auto& [dim, extent] : x.extents) grouped.extents[dim == 0 ? 0 : dim + 1] = extent;
  const Normalized result = normalize(e, grouped, 2, epsilon, /*centred=*/true);
  Shape aligned(split.size() - 1, 1);
  aligned[0] = groups;
  if (per == channels) aligned[1] = each;
  const Tensor scale = e.reshape(n.in(1), aligned), bias = e.reshape(n.in(2), aligned);
  return {{e.reshape(scaled(e, result.y, &scale, &bias, x.dtype), x.shape)}};
}

/// Spatial dimensions may be bounded, channels may not.
absl::Status groupExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it has to fit the channels"));
  if (n.in(0).extents.contains(1)) return refuseExtent(n, 0, 1, "it numbers channels");
  results[0].extents = n.in(0).extents;
  return absl::OkStatus();
}

/// The last dimension is normalized; the dimensions before it broadcast.
absl::Status skipExtents(Node& n, Emitter& e, std::vector<Tensor>& results) {
  const int64_t last = n.in(0).rank() - 1;
  if (n.in(0).extents.contains(last)) return refuseExtent(n, 0, last, "elements along it are combined");
  return broadcastExtents(n, e, results);
}

/// Microsoft's form of RMSNormalization, registered in ONNX's domain.
Results lowerSimplifiedLayerNormalization(Node& n, Emitter& e) { return lowerRmsNormalization(n, e); }

/// Normalizes (input + skip + bias) over the last dimension; the sum is also a result.
template <bool kCentred>
Results lowerSkipLayerNormalization(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  constexpr int kBeta = 3, kBias = kCentred ? 4 : 3;
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2, 3));
  TESSERA_ASSIGN_OR_RETURN(const double epsilon, n.real("epsilon", 1e-12));
  for (int i : {1, 2, kBeta, kBias}) TESSERA_RETURN_IF_ERROR(requireBroadcast(n, i, x.shape));
  Tensor total = sum(e, x, n.in(1));
  if (n.has(kBias)) total = sum(e, total, n.in(kBias));
  const v1::DataType wide = stashed(x.dtype, v1::DATA_TYPE_F32);
  const Normalized result = normalize(e, e.cast(total, wide), x.rank() - 1, epsilon, kCentred);
  const Tensor* beta = kCentred && n.has(kBeta) ? &n.in(kBeta) : nullptr;
  return {{scaled(e, result.y, &n.in(2), beta, x.dtype), result.mean, result.inverse, total}};
}

/// Gathers rows of a table; indices are i32, B x S or S.
absl::StatusOr<Tensor> rowsOf(Node& n, Emitter& e, int table, const Tensor& indices) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(table, 2, 2));
  if (!isInteger(indices.dtype) || n.in(table).elements() == 0 || indices.elements() == 0) {
    return n.invalid("indices or table do not fit", {.attribute = absl::StrCat("input ", table),
                                                     .found = typeName(indices.dtype),
                                                     .accepted = "integers, a table that is not empty"});
  }
  const Tensor& rows = n.in(table);
  Value source = e.value(rows), places = e.value(indices);
  Shape shape = indices.shape;
  shape.push_back(rows.shape[1]);
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, rows.dtype));
  return e.generate(rows.dtype, shape, [&](const Scalars& s, ValueRange at) {
    Value row = coordinate(s, e.extract(s, places, at.drop_back()), indices.dtype, rows.shape[0]);
    return e.extract(s, source, {row, at.back()});
  });
}

/// Normalizes words + positions + segments. The second result is the number of words in each row's mask.
Results lowerEmbedLayerNormalization(Node& n, Emitter& e) {
  constexpr int kSegments = 1, kWords = 2, kPositions = 3, kSegmentTable = 4, kGamma = 5, kBeta = 6, kMask = 7,
                kPlaces = 8;
  TESSERA_RETURN_IF_ERROR(n.requireInputs({kWords, kPositions, kGamma, kBeta}));
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2, 2));
  TESSERA_ASSIGN_OR_RETURN(const double epsilon, n.real("epsilon", 1e-12));
  n.ignore("mask_index_type");
  const int64_t batch = n.in(0).shape[0], words = n.in(0).shape[1];
  for (int i : {kSegments, kMask, kPlaces}) {
    if (n.has(i)) TESSERA_RETURN_IF_ERROR(requireBroadcast(n, i, n.in(0).shape));
  }
  TESSERA_ASSIGN_OR_RETURN(Tensor total, rowsOf(n, e, kWords, n.in(0)));
  std::vector<int64_t> running(words);
  std::iota(running.begin(), running.end(), 0);
  const Tensor places = n.has(kPlaces) ? n.in(kPlaces) : Emitter::wrap(integerConstant(running));
  TESSERA_ASSIGN_OR_RETURN(const Tensor positions, rowsOf(n, e, kPositions, places));
  if (positions.shape.back() != total.shape.back()) return requireBroadcast(n, kPositions, total.shape);
  total = sum(e, total, positions);
  if (n.has(kSegments) && n.has(kSegmentTable)) {
    TESSERA_ASSIGN_OR_RETURN(const Tensor segments, rowsOf(n, e, kSegmentTable, n.in(kSegments)));
    if (segments.shape.back() != total.shape.back()) return requireBroadcast(n, kSegmentTable, total.shape);
    total = sum(e, total, segments);
  }
  for (int i : {kGamma, kBeta}) TESSERA_RETURN_IF_ERROR(requireBroadcast(n, i, total.shape));
  const v1::DataType wide = stashed(total.dtype, v1::DATA_TYPE_F32);
  const Normalized result = normalize(e, e.cast(total, wide), 2, epsilon, /*centred=*/true);
  Tensor y = scaled(e, result.y, &n.in(kGamma), &n.in(kBeta), total.dtype);
  const v1::DataType i32 = v1::DATA_TYPE_I32;
  Tensor lengths = e.zeros(i32, {batch});
  if (n.has(kMask)) {
    lengths = e.reshape(reduceKeepingDims(e, e.cast(n.in(kMask), i32), {1}, Reduction::kSum), {batch});
  }
  return {{y, lengths, total}};
}

}  // namespace

std::vector<Operator> layerNormalizationOperators() {
  return {
      {"RMSNormalization", 23, 2, 2, lowerRmsNormalization, kFloats, 2, INT_MAX, "", beforeAxisExtents},
      {"GroupNormalization", 18, 3, 3, lowerGroupNormalization, kFloats, 3, INT_MAX, "", groupExtents},
      {"SimplifiedLayerNormalization", 1, 2, 2, lowerSimplifiedLayerNormalization, kFloats, 2, INT_MAX, "",
       beforeAxisExtents},
      {"SkipLayerNormalization", 1, 3, 5, lowerSkipLayerNormalization<true>, kFloats, 5, INT_MAX, kMicrosoft,
       skipExtents},
      {"SkipSimplifiedLayerNormalization", 1, 3, 4, lowerSkipLayerNormalization<false>, kFloats, 4, INT_MAX, kMicrosoft,
       skipExtents},
      {"EmbedLayerNormalization", 1, 1, 9, lowerEmbedLayerNormalization, kSigned, 1, INT_MAX, kMicrosoft},
  };
}

}  // namespace tessera::compiler
