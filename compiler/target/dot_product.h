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
  bool floating = false;    ///< bf16 operands and f32 sums; integers otherwise
  bool accumulates = true;  ///< the instruction adds to the sum; else the sum of the products is all it gives

  int products() const { return lanes * group; }
  bool operator==(const DotProduct&) const = default;
};

/// An instruction that multiplies neighbours of 8 bits, unsigned by signed, and adds two products each in 16 bits,
/// where the sum saturates: vpmaddubsw. Pairs of second operands whose sum is at most kNarrow either way are exact.
struct PairProduct {
  std::string name;
  std::string emit;           ///< the LLVM intrinsic
  std::vector<int> operands;  ///< of the intrinsic, in its order: 1 first, 2 second
  DotProduct sums;            ///< of pairs of 16 bits: adds the sums of a group to its sum of 32 bits

  /// Products of elements of the same sign are at most 255 times their sum, others stay below 255 * 128.
  static constexpr int kNarrow = 32767 / 255;
};

/// Those among these instructions whose sums another one of them adds up.
std::vector<PairProduct> pairProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics);

/// Those among these instructions, most products first. Found by what they compute: one that saturates, or whose
/// emission takes anything but the operands, is none.
std::vector<DotProduct> dotProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics);

/// Elements of `bits` bits that a group of the chip's instructions has, those of 16 bits being bf16: as many as fill a
/// sum's 32 bits. 0 where no instruction adds up such groups.
int groupOf(const std::vector<DotProduct>& products, int bits);

/// Whether it multiplies two vectors of f32 and adds the products to a third, each rounded once.
bool isMultiplyAdd(const v1::Intrinsic& intrinsic);

/// Instructions of the target that its code may use without asking the host, and that code can be made of: its dot
/// products and products of pairs, products of tiles (tile_product.h) and multiply-adds. Order of equal inputs is
/// equal.
google::protobuf::RepeatedPtrField<v1::Intrinsic> usableInstructions(const v1::Target& target);

}  // namespace tessera::compiler
