#pragma once

#include <array>
#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// An instruction on vectors that adds products of neighbours to each of its sums:
///
///   sum[i, j] += first[i, 0] * second[j, 0] + ... + first[i, depth - 1] * second[j, depth - 1]
///
/// with sums of 32 bits, no saturation, operands of 8 or 16 bits, and three registers of the same width. A coordinate
/// of the sum belongs to one source (smmla, ummla, usmmla; bfmmla in floats) or to both (vpdpbusd, sdot and udot,
/// vpmaddwd; vdpbf16ps and bfdot in floats). The description's subscripts determine which element each lane holds.
struct DotProduct {
  /// An instruction as a product of small matrices in which one source supplies the rows and the other one the columns.
  /// A coordinate that belongs to both sources counts as a column; each of its columns gets a copy of the row.
  struct Placement {
    int rows = 1, columns = 0;
    std::vector<int> sums;           ///< lane of the sum: row * columns + column
    std::vector<int> row_source;     ///< element of the register: row * depth + step of the sum
    std::vector<int> column_source;  ///< element of the register: column * depth + step of the sum
    bool operator==(const Placement&) const = default;
  };

  std::string name;
  std::string emit;           ///< the LLVM intrinsic
  std::vector<int> operands;  ///< of the intrinsic, in its order: 0 the sum, 1 first, 2 second
  int lanes = 0;              ///< sums of 32 bits
  int group = 0;              ///< elements of a source in 32 bits
  int depth = 0;              ///< products that are added to each sum: one group or several
  int bits = 0;               ///< of an element of both operands
  bool first_signed = false, second_signed = false;
  bool floating = false;  ///< bf16 operands and f32 sums; integers otherwise
  /// whether the instruction adds to the sum; otherwise it returns the sum of the products only
  bool accumulates = true;
  double cycles = 0;  ///< between independent issues; 0: not described
  /// With rows from the first source, and with rows from the second one.
  std::array<Placement, 2> placements;

  int products() const { return lanes * depth; }
  /// Whether lane i of the sum adds up group i of both sources: the instruction takes one row and one group at a time.
  bool isByLane() const;
  bool operator==(const DotProduct&) const = default;
};

/// An instruction that multiplies 8-bit neighbours, unsigned by signed, and adds pairs of products in 16 bits with
/// saturation: vpmaddubsw. The result is exact for pairs of second operands whose sum is at most kMaxExactSum in
/// magnitude.
struct PairProduct {
  std::string name;
  std::string emit;           ///< the LLVM intrinsic
  std::vector<int> operands;  ///< of the intrinsic, in its order: 1 first, 2 second
  DotProduct sums;            ///< for pairs of 16 bits: adds the sums of a group to its 32-bit sum

  /// Largest magnitude of the sum of two second operands for which the sum of the two products fits into 16 bits. If
  /// the second operands have equal signs, the sum of products is at most 255 * |their sum|; if they have opposite
  /// signs, it is at most 255 * 128 in magnitude, which always fits.
  static constexpr int kMaxExactSum = 32767 / 255;
};

/// The pair products among these instructions whose sums another one of them can accumulate.
std::vector<PairProduct> pairProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics);

/// The dot products among these instructions, most products first. Detected by their semantics: an instruction that
/// saturates, or whose emission takes anything but the operands, does not qualify. The number of iterations, their
/// extents and the order of subscripts are free, within registers of at most 2048 bits.
std::vector<DotProduct> dotProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics);

/// Elements of `bits` bits in a group of the chip's instructions (16-bit elements are bf16): as many as fill a 32-bit
/// sum. 0 if no instruction sums such groups.
int dotProductGroup(const std::vector<DotProduct>& products, int bits);

/// Whether the instruction multiplies two vectors of f32 and adds the products to a third one with a single rounding
/// each.
bool isMultiplyAdd(const v1::Intrinsic& intrinsic);

/// The target's instructions that code generation can use without a run-time check: dot products, products of pairs,
/// tile products (tile_product.h) and multiply-adds. Deterministic order.
google::protobuf::RepeatedPtrField<v1::Intrinsic> usableInstructions(const v1::Target& target);

}  // namespace tessera::compiler
