#pragma once

#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// An instruction that adds products of neighbours to each lane of a vector:
///
///   sum[i] += first[i, 0] * second[i, 0] + ... + first[i, group - 1] * second[i, group - 1],   i < lanes
///
/// with sums of 32 bits, no saturation, and operands of 8 or 16 bits, neighbours of a group next to each other:
/// vpdpbusd, sdot and udot, vpmaddwd; in floats of bf16 operands and f32 sums vdpbf16ps and bfdot.
struct DotProduct {
  std::string name;
  std::string emit;           ///< the LLVM intrinsic
  std::vector<int> operands;  ///< of the intrinsic, in its order: 0 the sum, 1 first, 2 second
  int lanes = 0;              ///< sums of 32 bits
  int group = 0;
  int bits = 0;  ///< of an element of both operands
  bool first_signed = false, second_signed = false;
  bool floating = false;  ///< bf16 operands and f32 sums; integers otherwise
  /// whether the instruction adds to the sum; otherwise it returns the sum of the products only
  bool accumulates = true;

  int products() const { return lanes * group; }
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
/// saturates, or whose emission takes anything but the operands, does not qualify.
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
