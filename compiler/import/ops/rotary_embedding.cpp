// Rotary embeddings: rotates pairs of a head's elements by an angle proportional to the token's position.
#include "compiler/import/ops/rotary_embedding.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/attention.h"
#include "compiler/import/ops/indexing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

struct Rotation {
  Tensor cosines, sines;     ///< B x S x half
  int64_t turned = 0;        ///< elements of a head that are rotated
  bool interleaved = false;  ///< pairs are neighbours; otherwise one element of each half
};

/// Returns every `stride`th of `count` elements of the last dimension.
Tensor lastPart(Emitter& e, const Tensor& x, int64_t from, int64_t count, int64_t stride) {
  std::vector<int64_t> offsets(x.rank(), 0), sizes = x.shape, strides(x.rank(), 1);
  offsets.back() = from;
  sizes.back() = count;
  strides.back() = stride;
  return e.slice(x, offsets, sizes, strides);
}

/// x: heads along dimension `heads` (1 or 2), tokens along the other, elements of a head last.
Tensor rotate(Emitter& e, const Tensor& x, int64_t heads, const Rotation& r) {
  const int64_t half = r.turned / 2, last = x.rank() - 1;
  Shape aligned = r.cosines.shape;
  // The angles are equal for all heads.
  aligned.insert(aligned.begin() + heads, 1);
  const Tensor cosines = e.reshape(r.cosines, aligned), sines = e.reshape(r.sines, aligned);
  // The two elements of each pair: neighbours, or one of each half.
  const Tensor first = lastPart(e, x, 0, half, r.interleaved ? 2 : 1);
  const Tensor second = lastPart(e, x, r.interleaved ? 1 : half, half, r.interleaved ? 2 : 1);
  // A rotation of complex numbers: (cos + i sin) (first + i second).
  Tensor real = e.elementwise(x.dtype, {first, second, cosines, sines}, [](const Scalars& s, ValueRange v) {
    return s.sub(s.mul(v[2], v[0]), s.mul(v[3], v[1]));
  });
  Tensor imaginary = e.elementwise(x.dtype, {first, second, cosines, sines}, [](const Scalars& s, ValueRange v) {
    return s.add(s.mul(v[3], v[0]), s.mul(v[2], v[1]));
  });
  std::vector<Tensor> parts = {real, imaginary};
  if (r.interleaved) {
    // Interleaves the results again.
    Shape pairs = real.shape;
    pairs.push_back(1);
    Tensor both = e.concat({e.reshape(real, pairs), e.reshape(imaginary, pairs)}, last + 1);
    Shape merged = x.shape;
    merged.back() = r.turned;
    parts = {e.reshape(both, merged)};
  }
  // Elements behind the rotated ones stay.
  if (r.turned < x.shape.back()) parts.push_back(lastPart(e, x, r.turned, x.shape.back() - r.turned, 1));
  return parts.size() == 1 ? parts[0] : e.concat(parts, last);
}

/// Returns the rows of a table of angles at the tokens' positions (B x S, or one number: that of the first token).
Tensor rowsAt(Emitter& e, const Tensor& table, const Tensor& positions, int64_t batch, int64_t tokens) {
  Value source = e.value(table), places = e.value(positions);
  // One position for the first token; the others follow.
  const bool first_only = positions.rank() == 1;
  return e.generate(table.dtype, {batch, tokens, table.shape[1]}, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    Value zero = mlir::arith::ConstantIndexOp::create(s.b, s.loc, 0);
    Value place = first_only ? e.extract(s, places, {zero}) : e.extract(s, places, {at[0], at[1]});
    place = s.as(positions.dtype).cast(place, v1::DATA_TYPE_I64);
    if (first_only) {
      place = wide.add(place, mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(), at[1]));
    }
    Value row = coordinate(s, place, v1::DATA_TYPE_I64, table.shape[0]);
    return e.extract(s, source, {row, at[2]});
  });
}

}  // namespace

Tensor applyRotaryEmbedding(Emitter& e, const Tensor& x, const Tensor& cosines, const Tensor& sines,
                            const Tensor& positions, bool interleaved) {
  const int64_t batch = x.shape[0], tokens = x.shape[2];
  const Rotation r{.cosines = rowsAt(e, cosines, positions, batch, tokens),
                   .sines = rowsAt(e, sines, positions, batch, tokens),
                   .turned = 2 * cosines.shape[1],
                   .interleaved = interleaved};
  Tensor turned = rotate(e, x, 1, r);
  turned.extents = x.extents;
  return turned;
}

namespace {

/// Rotates x by the angles in `cosines` and `sines`: tables with positions, or B x S x half without.
Results embed(Node& n, Emitter& e, const Tensor& cosines, const Tensor& sines, const Tensor* positions) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3, 4));
  const bool packed = x.rank() == 3;
  Rotation r{.cosines = cosines, .sines = sines, .turned = 0, .interleaved = false};
  TESSERA_ASSIGN_OR_RETURN(r.interleaved, n.flag("interleaved", false));
  TESSERA_ASSIGN_OR_RETURN(r.turned, n.integer("rotary_embedding_dim", 0));
  TESSERA_ASSIGN_OR_RETURN(int64_t heads, n.integer("num_heads", 0));
  // The number of heads follows from the table if a head is rotated as a whole.
  if (packed && heads == 0 && r.turned == 0 && cosines.rank() > 0) heads = x.shape[2] / (2 * cosines.shape.back());
  if (packed) TESSERA_RETURN_IF_ERROR(checkHeads(n, "the hidden size", x.shape[2], heads));
  const Tensor split = packed ? e.reshape(x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads}) : x;
  const int64_t batch = x.shape[0], tokens = x.shape[packed ? 1 : 2], size = split.shape[3];
  if (r.turned == 0) r.turned = size;
  const Shape expected =
      positions ? Shape{cosines.rank() == 2 ? cosines.shape[0] : 1, r.turned / 2} : Shape{batch, tokens, r.turned / 2};
  const bool known = !positions || (isInteger(positions->dtype) &&
                                    (positions->shape == Shape{batch, tokens} || positions->shape == Shape{1}));
  if (r.turned < 2 || r.turned % 2 != 0 || r.turned > size || cosines.shape != expected || sines.shape != expected ||
      cosines.dtype != x.dtype || sines.dtype != x.dtype || x.elements() == 0 || !known) {
    return n.invalid("the angles do not fit the input",
                     {.attribute = "cos_cache",
                      .found = absl::StrCat(shapeText(cosines.shape), " and ", shapeText(sines.shape), " of ",
                                            typeName(cosines.dtype)),
                      .accepted = absl::StrCat(shapeText(expected), " of ", typeName(x.dtype), ", positions of shape ",
                                               batch, "x", tokens)});
  }
  if (positions) {
    r.cosines = rowsAt(e, cosines, *positions, batch, tokens);
    r.sines = rowsAt(e, sines, *positions, batch, tokens);
  }
  return {{e.reshape(rotate(e, split, packed ? 2 : 1, r), x.shape)}};
}

/// Batch and tokens may be bounded, with equal extents in positions, angles and x.
absl::Status rotaryExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  const int64_t tokens = n.in(0).rank() == 3 ? 1 : 2;
  TESSERA_RETURN_IF_ERROR(refuseOtherExtents(n, {{0, {0, tokens}}, {1, {0, 1}}, {2, {0, 1}}, {3, {0, 1}}}));
  for (int i = 1; i < n.numInputs(); ++i) {
    const Tensor& each = n.in(i);
    const bool by_token = each.rank() == 3 || (each.rank() == 2 && isInteger(each.dtype));
    if (!by_token) {
      TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it is a table"));
      continue;
    }
    TESSERA_RETURN_IF_ERROR(requireSameExtent(n, each, 0, n.in(0), 0, "batches of input and positions"));
    TESSERA_RETURN_IF_ERROR(requireSameExtent(n, each, 1, n.in(0), tokens, "tokens of input and positions"));
  }
  results[0].extents = n.in(0).extents;
  return absl::OkStatus();
}

Results lowerRotaryEmbedding(Node& n, Emitter& e) {
  return embed(n, e, n.in(1), n.in(2), n.has(3) ? &n.in(3) : nullptr);
}

/// Microsoft's operator: positions come before the tables.
Results lowerMicrosoftRotaryEmbedding(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const bool packed_batch, n.flag("is_packed_batching", false));
  TESSERA_ASSIGN_OR_RETURN(const double scale, n.real("scale", 1.0));
  if (packed_batch || scale != 1) {
    return n.unsupported("packed batches or a scale",
                         {.attribute = "is_packed_batching", .found = "1", .accepted = "0, and scale 1"});
  }
  return embed(n, e, n.in(2), n.in(3), &n.in(1));
}

}  // namespace

std::vector<Operator> rotaryEmbeddingOperators() {
  return {
      {"RotaryEmbedding", 23, 3, 4, lowerRotaryEmbedding, kFloats, 1, INT_MAX, "", rotaryExtents},
      {"RotaryEmbedding", 1, 4, 4, lowerMicrosoftRotaryEmbedding, kFloats, 1, INT_MAX, kMicrosoft, rotaryExtents},
  };
}

}  // namespace tessera::compiler
