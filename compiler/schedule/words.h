#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/v1/schedule.pb.h"

/// Words of the printed form for enumerated values.
namespace tessera::compiler::words {

inline constexpr std::array<std::pair<v1::Tile::Join, std::string_view>, 4> kJoins{
    {{v1::Tile::SEQ, "Seq"}, {v1::Tile::SHAR, "Shar"}, {v1::Tile::PARA, "Para"}, {v1::Tile::PIPE, "Pipe"}}};

/// "Shar"; "?" for a value that has no name.
inline std::string joinName(v1::Tile::Join join) {
  for (const auto& [value, name] : kJoins)
    if (value == join) return std::string(name);
  return "?";
}

inline std::optional<v1::Tile::Join> joinNamed(std::string_view word) {
  for (const auto& [value, name] : kJoins)
    if (name == word) return value;
  return std::nullopt;
}

/// Variants of kernels (v1::Kernel.variant).
inline constexpr std::string_view kScalar = "scalar", kElementwise = "elementwise", kTransposed = "transposed",
                                  kReduction = "reduction", kHorizontal = "horizontal", kOuterProduct = "outer-product",
                                  kSliding = "sliding", kDot = "dot", kTransform = "transform", kPack = "pack",
                                  kSharedPack = "shared-pack", kSequential = "sequential", kTiles = "tiles";

/// Layouts of stages (v1::Stage.layout), the only unit of Sp loops on CPUs, and the names of the loops over strips,
/// over blocks and over groups of keys. "bypass" occurs in trees of dataflows only (compiler/cost).
inline constexpr std::string_view kPanels = "panels", kApart = "apart", kStrided = "strided", kBypass = "bypass",
                                  kCore = "core", kRows = "rows", kBlocks = "r0", kKeys = "keys";

}  // namespace tessera::compiler::words
