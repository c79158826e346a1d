// Microsoft's operators on weights quantized in blocks. A byte holds one 8-bit element, two 4-bit or four 2-bit ones,
// the first in the lowest bits. An element q means (q - zero point) * scale, with one zero point and scale per block.
//
// Weights stay packed in the compiled model: the operation that unpacks them carries kStoredPacked, so constant folding
// does not evaluate it. N: columns of the result, K: terms of its sums, P: elements in a byte.
#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/indexing.h"
#include "compiler/import/ops/matmul.h"
#include "compiler/ir/stored_packed.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;
namespace arith = mlir::arith;

constexpr v1::DataType kU8 = v1::DATA_TYPE_U8;

/// With few rows a product unpacks each weight once per row; with more rows it is cheaper to unpack all weights first.
constexpr int64_t kFewRows = 3;

struct Blocks {
  int64_t rows = 0, count = 0, size = 0;  ///< blocks per row, and elements per block
  int64_t bits = 0;

  int64_t perByte() const { return 8 / bits; }
  int64_t bytes() const { return size / perByte(); }  ///< per block
};

/// Reorders the elements of each block so that those at one bit position are adjacent: byte j of a block has the
/// elements j, j + bytes, j + 2 bytes, ... from its lowest bits on.
ConstantPtr bitPlanes(const Constant& stored, const Blocks& blocks) {
  const int64_t per = blocks.perByte(), width = blocks.bytes();
  // Elements at one bit position are unpacked by one shift and one mask for a whole vector.
  const unsigned mask = (1U << blocks.bits) - 1;
  std::string bytes(stored.bytes.size(), '\0');
  for (int64_t begin = 0; begin < static_cast<int64_t>(bytes.size()); begin += width) {
    for (int64_t k = 0; k < blocks.size; ++k) {
      const auto byte = static_cast<unsigned char>(stored.bytes[begin + k / per]);
      const unsigned element = byte >> (k % per * blocks.bits) & mask;
      char& to = bytes[begin + k % width];
      to = static_cast<char>(static_cast<unsigned char>(to) | element << (k / width * blocks.bits));
    }
  }
  return makeConstant(kU8, {blocks.rows, blocks.count, width}, std::move(bytes));
}

/// Weights are reordered at import, so they must be constants.
absl::StatusOr<ConstantPtr> knownWeights(Node& n, int input, const char* what) {
  if (n.in(input).constant) return n.in(input).constant;
  return n.unsupported(absl::StrCat(what, " that are computed at run time"),
                       {.attribute = absl::StrCat("input ", input), .accepted = "constants"});
}

/// Returns zero points as numbers, rows x blocks. They are packed like the elements, with each row starting at a byte;
/// or of the scales' type; or, if absent, the middle of the range.
absl::StatusOr<Tensor> zeroPoints(Node& n, int input, const Blocks& blocks, v1::DataType scales) {
  // Packed zero points of a row fill whole bytes.
  const int64_t each = (blocks.count + blocks.perByte() - 1) / blocks.perByte();
  // The middle of the range is ONNX Runtime's default.
  if (!n.has(input)) return Emitter::wrap(realConstant(kF32, {}, {static_cast<double>(1 << (blocks.bits - 1))}));
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr given, knownWeights(n, input, "zero points"));
  const bool packed = given->dtype == kU8;
  const int64_t expected = blocks.rows * (packed ? each : blocks.count);
  if ((!packed && given->dtype != scales) || given->elements() != expected) {
    return n.invalid("the zero points do not fit",
                     {.attribute = "zero_points",
                      .found = absl::StrCat(shapeText(given->shape), " of ", typeName(given->dtype)),
                      .accepted = absl::StrCat(blocks.rows * each, " bytes, or ", blocks.rows * blocks.count, " of ",
                                               typeName(scales))});
  }
  std::vector<double> values(blocks.rows * blocks.count);
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    if (!packed) {
      values[i] = given->realAt(i);
      continue;
    }
    const int64_t row = i / blocks.count, block = i % blocks.count;
    const int64_t byte = given->integerAt(row * each + block / blocks.perByte());
    values[i] = static_cast<double>(byte >> (block % blocks.perByte() * blocks.bits) & ((1 << blocks.bits) - 1));
  }
  return Emitter::wrap(realConstant(kF32, {blocks.rows, blocks.count}, values));
}

struct PackedWeights {
  Blocks blocks;
  Tensor elements;      ///< rows x blocks x bytes, in the order of bitPlanes()
  Tensor scales, zero;  ///< f32, rows x blocks; zero may be a single number

  bool oneZero() const { return zero.rank() == 0; }
};

/// Returns element `plane` of a byte as f32; `plane` is an i32.
Value elementOf(const Scalars& s, Value byte, Value plane, const Blocks& blocks) {
  const Scalars whole = s.as(kI32);
  Value wide = s.as(kU8).cast(byte, kI32);
  if (blocks.bits < 8) {
    Value places = whole.mul(plane, whole.integer(blocks.bits));
    wide = arith::ShRUIOp::create(s.b, s.loc, wide, places);
    wide = arith::AndIOp::create(s.b, s.loc, wide, whole.integer((1 << blocks.bits) - 1));
  }
  return whole.cast(wide, kF32);
}

Value zeroOf(const Scalars& s, const PackedWeights& w, Value operand) {
  return w.oneZero() ? s.as(kF32).constant(w.zero.constant->realAt(0)) : operand;
}

/// Unpacks the weights: rows x (blocks * size) in f32.
Tensor widened(Emitter& e, const PackedWeights& w) {
  const Blocks& blocks = w.blocks;
  auto d = [&](unsigned dim) { return e.b.getAffineDimExpr(dim); };
  auto map = [&](llvm::ArrayRef<mlir::AffineExpr> results) { return AffineMap::get(4, 0, results, e.b.getContext()); };
  // Loops: row, block, bit position, byte.
  std::vector<Access> inputs = {{w.elements, map({d(0), d(1), d(3)})}, {w.scales, map({d(0), d(1)})}};
  if (!w.oneZero()) inputs.push_back({w.zero, map({d(0), d(1)})});
  const Shape shape = {blocks.rows, blocks.count, blocks.perByte(), blocks.bytes()};
  const Tensor wide =
      e.generic(kF32, shape, inputs, e.b.getMultiDimIdentityMap(4),
                std::vector<IteratorType>(4, IteratorType::parallel), nullptr, [&](const Scalars& s, ValueRange v) {
                  const Scalars real = s.as(kF32);
                  Value plane = arith::IndexCastOp::create(s.b, s.loc, s.b.getI32Type(),
                                                           mlir::linalg::IndexOp::create(s.b, s.loc, 2).getResult());
                  return real.mul(real.sub(elementOf(s, v[0], plane, blocks), zeroOf(s, w, v.back())), v[1]);
                });
  // Tells later passes that the stored form is smaller and should be kept.
  wide.value.getDefiningOp()->setAttr(kStoredPacked, e.b.getUnitAttr());
  return e.reshape(wide, {blocks.rows, blocks.count * blocks.size});
}

/// Returns x w' for few rows of x (rows x (blocks * size), f32), reading packed weights.
Tensor productOfStored(Emitter& e, const Tensor& x, const PackedWeights& w) {
  const Blocks& blocks = w.blocks;
  const Shape split = {x.shape[0], blocks.count, blocks.perByte(), blocks.bytes()};
  auto d = [&](unsigned dim) { return e.b.getAffineDimExpr(dim); };
  auto map = [&](llvm::ArrayRef<mlir::AffineExpr> results) { return AffineMap::get(4, 0, results, e.b.getContext()); };
  // Loops: row, column, block, byte. The elements of one byte multiply as many elements of x, which are not adjacent.
  std::vector<Access> inputs = {{w.elements, map({d(1), d(2), d(3)})}, {w.scales, map({d(1), d(2)})}};
  const Tensor parts = e.reshape(x, split);
  for (int64_t plane = 0; plane < blocks.perByte(); ++plane) {
    const Tensor part = e.slice(parts, {0, 0, plane, 0}, {x.shape[0], blocks.count, 1, blocks.bytes()}, {1, 1, 1, 1});
    inputs.push_back({e.reshape(part, {x.shape[0], blocks.count, blocks.bytes()}), map({d(0), d(2), d(3)})});
  }
  if (!w.oneZero()) inputs.push_back({w.zero, map({d(1), d(2)})});
  const Shape shape = {x.shape[0], blocks.rows};
  const Tensor init = e.zeros(kF32, shape);
  const IteratorType loops[] = {IteratorType::parallel, IteratorType::parallel, IteratorType::reduction,
                                IteratorType::reduction};
  return e.generic(kF32, shape, inputs, map({d(0), d(1)}), loops, &init, [&](const Scalars& s, ValueRange v) {
    const Scalars real = s.as(kF32);
    Value sum;
    // Unrolled over the elements of a byte.
    for (int64_t plane = 0; plane < blocks.perByte(); ++plane) {
      Value element = elementOf(s, v[0], s.as(kI32).integer(plane), blocks);
      Value term = real.mul(real.sub(element, zeroOf(s, w, v[v.size() - 2])), v[2 + plane]);
      sum = sum ? real.add(sum, term) : term;
    }
    // The scale of a block multiplies once per byte, not once per element.
    return real.add(v.back(), real.mul(sum, v[1]));
  });
}

absl::Status unknownQuantization(Node& n, const char* attribute, int64_t found, const char* accepted) {
  return n.unsupported("this way to quantize",
                       {.attribute = attribute, .found = absl::StrCat(found), .accepted = accepted});
}

absl::Status checkBlockSize(Node& n, int64_t bits, int64_t size) {
  if (bits != 2 && bits != 4 && bits != 8) return unknownQuantization(n, "bits", bits, "2, 4, 8");
  // Powers of two, so that blocks fit vectors.
  if (size >= 16 && size <= int64_t{1} << 20 && (size & (size - 1)) == 0) return absl::OkStatus();
  return unknownQuantization(n, "block_size", size, "powers of two, 16 and above");
}

/// Reads the weights of a node: elements, scales and zero points by input positions.
absl::StatusOr<PackedWeights> readWeights(Node& n, Emitter& e, const Blocks& blocks, int elements, int scales,
                                          int zero) {
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr stored, knownWeights(n, elements, "quantized weights"));
  const int64_t bytes = blocks.rows * blocks.count * blocks.bytes();
  if (stored->dtype != kU8 || static_cast<int64_t>(stored->bytes.size()) != bytes) {
    return n.invalid("the weights do not fit",
                     {.attribute = absl::StrCat("input ", elements),
                      .found = absl::StrCat(shapeText(stored->shape), " of ", typeName(stored->dtype)),
                      .accepted = absl::StrCat("u8 of ", blocks.rows, "x", blocks.count, "x", blocks.bytes())});
  }
  if (!isFloat(n.in(scales).dtype) || n.in(scales).elements() != blocks.rows * blocks.count) {
    return n.invalid("the scales do not fit",
                     {.attribute = absl::StrCat("input ", scales),
                      .found = absl::StrCat(shapeText(n.in(scales).shape), " of ", typeName(n.in(scales).dtype)),
                      .accepted = absl::StrCat("floating point, ", blocks.rows, "x", blocks.count)});
  }
  PackedWeights w{.blocks = blocks, .elements = Emitter::wrap(bitPlanes(*stored, blocks)), .scales = {}, .zero = {}};
  w.scales = e.cast(e.reshape(n.in(scales), {blocks.rows, blocks.count}), kF32);
  TESSERA_ASSIGN_OR_RETURN(w.zero, zeroPoints(n, zero, blocks, n.in(scales).dtype));
  return w;
}

/// If group indices are given, accepts only those of blocks of equal size.
absl::Status checkGroups(Node& n, int input, const Blocks& blocks, int64_t k) {
  if (!n.has(input)) return absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(const auto groups, n.constantIntegers(input, "groups"));
  bool in_order = static_cast<int64_t>(groups.size()) >= k;
  for (int64_t i = 0; in_order && i < k; ++i) in_order = groups[i] == i / blocks.size;
  if (in_order) return absl::OkStatus();
  return n.unsupported("groups in another order", {.attribute = "g_idx", .accepted = "k / block_size for each k"});
}

/// Multiplies A (.. x K) by weights quantized along K and adds a bias.
Results lowerMatMulNBits(Node& n, Emitter& e) {
  constexpr int kElements = 1, kScales = 2, kZero = 3, kGroups = 4, kBias = 5;
  TESSERA_ASSIGN_OR_RETURN(const int64_t k, n.integer("K"));
  Blocks blocks;
  TESSERA_ASSIGN_OR_RETURN(blocks.rows, n.integer("N"));
  TESSERA_ASSIGN_OR_RETURN(blocks.bits, n.integer("bits", 4));
  TESSERA_ASSIGN_OR_RETURN(blocks.size, n.integer("block_size"));
  n.ignore("accuracy_level");  // permits a loss of accuracy, does not require it
  TESSERA_ASSIGN_OR_RETURN(const int64_t prepacked, n.integer("weight_prepacked", 0));
  if (prepacked != 0) return unknownQuantization(n, "weight_prepacked", prepacked, "0");
  TESSERA_RETURN_IF_ERROR(checkBlockSize(n, blocks.bits, blocks.size));
  const Tensor& a = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1));
  if (k < 1 || blocks.rows < 1 || a.shape.back() != k || a.elements() == 0) {
    return n.invalid("the left operand does not fit",
                     {.attribute = "A", .found = shapeText(a.shape), .accepted = absl::StrCat("... x ", k)});
  }
  blocks.count = (k + blocks.size - 1) / blocks.size;
  TESSERA_RETURN_IF_ERROR(n.checkResult({blocks.rows, blocks.count, blocks.size}, kF32));
  TESSERA_RETURN_IF_ERROR(n.requireInputs({kElements, kScales}));
  TESSERA_RETURN_IF_ERROR(checkGroups(n, kGroups, blocks, k));
  TESSERA_ASSIGN_OR_RETURN(const PackedWeights weights, readWeights(n, e, blocks, kElements, kScales, kZero));
  Shape shape = a.shape;
  shape.back() = blocks.rows;
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, kF32));
  if (n.has(kBias) && (n.in(kBias).shape != Shape{blocks.rows} || n.in(kBias).dtype != a.dtype)) {
    return n.invalid("the bias does not fit", {.attribute = "bias",
                                               .found = shapeText(n.in(kBias).shape),
                                               .accepted = absl::StrCat(blocks.rows, " of ", typeName(a.dtype))});
  }
  const int64_t rows = a.elements() / k, whole = blocks.count * blocks.size;
  TESSERA_RETURN_IF_ERROR(n.checkResult({rows, whole}, kF32));
  Tensor x = e.cast(e.reshape(a, {rows, k}), kF32);
  // The padding of the last block is multiplied by zeros.
  if (whole > k) x = e.pad(x, {0, 0}, {0, whole - k}, e.scalars(kF32).constant(0));
  Tensor y;
  // Few rows read the packed weights directly: less memory is read.
  if (rows <= kFewRows) {
    y = productOfStored(e, x, weights);
  } else {
    TESSERA_RETURN_IF_ERROR(n.checkResult({blocks.rows, whole}, kF32));
    y = product(e, x, widened(e, weights), false, true);
  }
  if (n.has(kBias)) {
    y = e.elementwise(kF32, {y, e.cast(n.in(kBias), kF32)},
                      [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
  }
  return {{e.reshape(e.cast(y, a.dtype), shape)}};
}

/// Gathers rows of a table of quantized elements and unpacks only these.
Results lowerGatherBlockQuantized(Node& n, Emitter& e) {
  constexpr int kIndices = 1, kScales = 2, kZero = 3;
  Blocks blocks;
  TESSERA_ASSIGN_OR_RETURN(blocks.bits, n.integer("bits", 4));
  TESSERA_ASSIGN_OR_RETURN(blocks.size, n.integer("block_size", 128));
  TESSERA_RETURN_IF_ERROR(checkBlockSize(n, blocks.bits, blocks.size));
  const Tensor& data = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2, 2));
  TESSERA_RETURN_IF_ERROR(checkIndices(n, kIndices));
  TESSERA_ASSIGN_OR_RETURN(const int64_t gathered, n.axis("gather_axis", 0, 2));
  TESSERA_ASSIGN_OR_RETURN(const int64_t quantized, n.axis("quantize_axis", 1, 2));
  if (data.dtype != kU8 || gathered != 0 || quantized != 1) {
    return n.unsupported("a table of this kind", {.attribute = "data",
                                                  .found = absl::StrCat(typeName(data.dtype), ", gathered along ",
                                                                        gathered, ", quantized along ", quantized),
                                                  .accepted = "bytes, gathered along 0, quantized along 1"});
  }
  blocks.rows = data.shape[0];
  const int64_t columns = data.shape[1] * blocks.perByte();
  blocks.count = (columns + blocks.size - 1) / blocks.size;
  if (columns % blocks.size != 0 || blocks.rows < 1) {
    return n.unsupported("rows that are no whole number of blocks",
                         {.attribute = "data",
                          .found = absl::StrCat(columns, " elements"),
                          .accepted = absl::StrCat("multiples of ", blocks.size)});
  }
  TESSERA_ASSIGN_OR_RETURN(const PackedWeights w, readWeights(n, e, blocks, 0, kScales, kZero));
  Shape shape = n.in(kIndices).shape;
  const auto lead = static_cast<unsigned>(shape.size());
  shape.insert(shape.end(), {blocks.count, blocks.perByte(), blocks.bytes()});
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, kF32));
  Value elements = e.value(w.elements), scales = e.value(w.scales), indices = e.value(n.in(kIndices));
  Value zero = w.oneZero() ? Value() : e.value(w.zero);
  // Unpacks only gathered rows.
  const Tensor rows = e.generate(kF32, shape, [&](const Scalars& s, ValueRange at) {
    const Scalars real = s.as(kF32);
    Value row = coordinate(s, e.extract(s, indices, at.take_front(lead)), n.in(kIndices).dtype, blocks.rows);
    Value block = at[lead];
    Value plane = arith::IndexCastOp::create(s.b, s.loc, s.b.getI32Type(), at[lead + 1]);
    Value element = elementOf(s, e.extract(s, elements, {row, block, at[lead + 2]}), plane, blocks);
    Value offset = zeroOf(s, w, zero ? e.extract(s, zero, {row, block}) : Value());
    return real.mul(real.sub(element, offset), e.extract(s, scales, {row, block}));
  });
  shape.resize(lead);
  shape.push_back(columns);
  return {{e.cast(e.reshape(rows, shape), n.in(kScales).dtype)}};
}

}  // namespace

std::vector<Operator> blockQuantizedOperators() {
  return {
      {"MatMulNBits", 1, 3, 6, lowerMatMulNBits, kFloats, 1, INT_MAX, kMicrosoft},
      {"GatherBlockQuantized", 1, 3, 4, lowerGatherBlockQuantized, kUnsigned, 1, INT_MAX, kMicrosoft},
  };
}

}  // namespace tessera::compiler
