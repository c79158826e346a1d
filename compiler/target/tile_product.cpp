#include "compiler/target/tile_product.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

namespace tessera::compiler {
namespace {

using Operand = v1::Intrinsic::Operand;

bool subscripts(const Operand& operand, const v1::Intrinsic::IterDim& row, const v1::Intrinsic::IterDim& column) {
  return operand.subscripts_size() == 2 && operand.subscripts(0) == row.name() &&
         operand.subscripts(1) == column.name();
}

// The instructions that descriptions may name: they become assembly text without the prefix.
constexpr std::string_view kPrefix = "llvm.x86.";
constexpr std::string_view kLoads[] = {"llvm.x86.tileloadd64", "llvm.x86.tileloaddt164"};
constexpr std::string_view kStores[] = {"llvm.x86.tilestored64"};
bool isProductOfTiles(std::string_view emit) {
  if (!emit.starts_with(kPrefix)) return false;
  emit.remove_prefix(kPrefix.size());
  return emit.starts_with("tdp") &&
         std::ranges::all_of(emit, [](char c) { return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9'); });
}

/// Limits of a tile register of palette 1: rows, and bytes per row. A column of sums has 4 bytes, and so has a group.
constexpr int64_t kMaxRows = 16, kMaxRowBytes = 64;
constexpr int64_t kMaxColumns = kMaxRowBytes / 4, kMaxGroups = std::min(kMaxRows, kMaxRowBytes / 4);

bool isWithin(int64_t value, int64_t most) { return 1 <= value && value <= most; }

/// The intrinsic of the only transfer of `operand` between memory and registers; empty if there is none, several, or an
/// unknown one.
std::string moves(const v1::Intrinsic& intrinsic, const Operand& operand, bool into_registers) {
  const std::span<const std::string_view> known = into_registers ? std::span<const std::string_view>(kLoads) : kStores;
  std::string found;
  for (const v1::Intrinsic::Transfer& transfer : intrinsic.transfers()) {
    if (transfer.operand() != operand.name()) continue;
    if ((transfer.to() == "registers") != into_registers) continue;
    if (!found.empty() || std::ranges::find(known, transfer.emit()) == known.end()) return "";
    found = transfer.emit();
  }
  return found;
}

/// Whether the emission takes the numbers of the three tiles, in the description's order.
bool takesTiles(const v1::Intrinsic& intrinsic) {
  const v1::Intrinsic::Emission& emission = intrinsic.emission();
  return isProductOfTiles(intrinsic.emit()) && emission.form() == v1::Intrinsic::Emission::LLVM_INTRINSIC &&
         std::equal(emission.arguments().begin(), emission.arguments().end(), intrinsic.operands().begin(),
                    intrinsic.operands().end(), [](const v1::Intrinsic::Argument& argument, const Operand& operand) {
                      return argument.operand() == operand.name() && argument.type() == "i8";
                    });
}

bool addsUpExactly(const v1::Intrinsic::Arithmetic& arithmetic, v1::DataType sum) {
  return arithmetic.form() == v1::Intrinsic::Arithmetic::MULTIPLY_ADD &&
         arithmetic.overflow() != v1::Intrinsic::Arithmetic::SATURATE &&
         arithmetic.intermediate_overflow() != v1::Intrinsic::Arithmetic::SATURATE &&
         (arithmetic.intermediate() == v1::DATA_TYPE_UNSPECIFIED || arithmetic.intermediate() == sum);
}

bool isNarrow(v1::DataType type) { return type == v1::DATA_TYPE_I8 || type == v1::DATA_TYPE_U8; }

std::optional<TileProduct> tileProductOf(const v1::Intrinsic& intrinsic) {
  if (intrinsic.iterations_size() != 3 || intrinsic.operands_size() != 3 || !intrinsic.bounds().empty() ||
      !takesTiles(intrinsic))
    return std::nullopt;
  const v1::Intrinsic::IterDim &row = intrinsic.iterations(0), &column = intrinsic.iterations(1),
                               &within = intrinsic.iterations(2);
  const Operand &sum = intrinsic.operands(0), &first = intrinsic.operands(1), &second = intrinsic.operands(2);
  if (row.reduction() || column.reduction() || !within.reduction() || !subscripts(sum, row, column) ||
      !subscripts(first, row, within) || !subscripts(second, within, column))
    return std::nullopt;
  const bool floating = first.dtype() == v1::DATA_TYPE_BF16;
  if (floating ? second.dtype() != v1::DATA_TYPE_BF16 : !isNarrow(first.dtype()) || !isNarrow(second.dtype()))
    return std::nullopt;
  const v1::DataType whole = floating ? v1::DATA_TYPE_F32 : v1::DATA_TYPE_I32;
  const int group = floating ? 2 : 4;
  if (sum.dtype() != whole || !addsUpExactly(intrinsic.arithmetic(), whole) || within.extent() % group != 0)
    return std::nullopt;
  if (!isWithin(row.extent(), kMaxRows) || !isWithin(column.extent(), kMaxColumns) ||
      !isWithin(within.extent() / group, kMaxGroups))
    return std::nullopt;
  TileProduct product{.name = intrinsic.name(),
                      .emit = intrinsic.emit(),
                      .load = moves(intrinsic, first, true),
                      .store = moves(intrinsic, sum, false),
                      .rows = static_cast<int>(row.extent()),
                      .columns = static_cast<int>(column.extent()),
                      .depth = static_cast<int>(within.extent()),
                      .group = group,
                      .first_signed = first.dtype() == v1::DATA_TYPE_I8,
                      .second_signed = second.dtype() == v1::DATA_TYPE_I8,
                      .floating = floating,
                      .latency_cycles = std::max(1.0, static_cast<double>(intrinsic.latency_cycles())),
                      .cycles = std::max(1.0, intrinsic.cycles_per_issue())};
  if (product.load.empty() || product.store.empty() || moves(intrinsic, second, true) != product.load)
    return std::nullopt;
  return product;
}

}  // namespace

bool isTileProduct(const v1::Intrinsic& intrinsic) { return tileProductOf(intrinsic).has_value(); }

std::vector<TileProduct> tileProducts(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics) {
  std::vector<TileProduct> found;
  for (const v1::Intrinsic& intrinsic : intrinsics)
    if (auto tile = tileProductOf(intrinsic)) found.push_back(std::move(*tile));
  return found;
}

}  // namespace tessera::compiler
