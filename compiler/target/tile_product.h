#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// An instruction that multiplies whole tiles in registers of two dimensions:
///
///   sum[i, j] += first[i, 0] * second[0, j] + ... + first[i, depth - 1] * second[depth - 1, j],  i < rows, j < columns
///
/// with sums of 32 bits, no saturation, operands of 8-bit integers or bf16, and `group` neighbours along the sum beside
/// each other in every row of the second one: tdpbusd and its kin, tdpbf16ps. Tiles are numbered registers whose shapes
/// are set before; smaller ones than these compute the same of what they hold. Of x86: code names the instructions in
/// assembly, so that a description names those of AMX and no others, and tiles are no larger than registers of AMX.
struct TileProduct {
  std::string name;
  std::string emit;         ///< the LLVM intrinsic, of the numbers of three tiles: sum, first, second
  std::string load, store;  ///< those that move a tile: number, address, bytes from row to row
  int rows = 0, columns = 0, depth = 0;
  int group = 0;  ///< elements of 32 bits' worth
  bool first_signed = false, second_signed = false;
  bool floating = false;      ///< bf16 operands and f32 sums; integers otherwise
  double latency_cycles = 1;  ///< until the next product may add to the same sums
  double cycles = 1;          ///< from one to the next

  bool operator==(const TileProduct&) const = default;
};

/// Whether the instruction is one.
bool isTileProduct(const v1::Intrinsic& intrinsic);

/// Those among these instructions, in their order. Found by what they compute and move.
std::vector<TileProduct> tileProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics);

}  // namespace tessera::compiler
