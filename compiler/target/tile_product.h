#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// An instruction that multiplies whole tiles in two-dimensional registers:
///
///   sum[i, j] += first[i, 0] * second[0, j] + ... + first[i, depth - 1] * second[depth - 1, j],  i < rows, j < columns
///
/// with 32-bit sums, no saturation, and operands of 8-bit integers or bf16. Every row of the second operand holds
/// `group` neighbours along the sum next to each other: tdpbusd and its variants, tdpbf16ps. Tiles are numbered
/// registers whose shapes are configured in advance; smaller shapes compute the same on the elements they hold. x86
/// only: code names the instructions in assembly, so a description may only use those of AMX, and tiles no larger than
/// AMX registers.
struct TileProduct {
  std::string name;
  std::string emit;         ///< the LLVM intrinsic, of the numbers of three tiles: sum, first, second
  std::string load, store;  ///< the intrinsics that load and store a tile: number, address, bytes from row to row
  int rows = 0, columns = 0, depth = 0;
  int group = 0;  ///< elements per 32 bits
  bool first_signed = false, second_signed = false;
  bool floating = false;      ///< bf16 operands and f32 sums; integers otherwise
  double latency_cycles = 1;  ///< until another product may add to the same sums
  double cycles = 1;          ///< from one product to the next

  bool operator==(const TileProduct&) const = default;
};

/// Whether the instruction is a tile product.
bool isTileProduct(const v1::Intrinsic& intrinsic);

/// The tile products among these instructions, in their order. Detected by what they compute and how they move data.
std::vector<TileProduct> tileProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics);

}  // namespace tessera::compiler
