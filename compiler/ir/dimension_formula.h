#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::compiler {

/// A formula for the size of a dimension, parsed from its name as exporters write it: "past + 1", "2*tokens",
/// "batch*heads", "(s0//2)", "floor(width/2 - 1/2) + 1". It has numbers, names of other dimensions, + - * /, // and
/// floor and ceiling; divisors are numbers.
///
/// Neither a model nor an artifact stores the formula elsewhere, so the compiler and the runtime parse the same name.
class DimensionFormula {
 public:
  enum class Kind { kNumber, kDimension, kAdd, kSubtract, kMultiply, kDivide, kFloor, kCeiling };
  /// One step on a stack of fractions: pushes a number or a dimension's size, combines the last two entries, divides
  /// the last entry by a number, or rounds it.
  struct Step {
    Kind kind = Kind::kNumber;
    int64_t number = 0;  ///< or position among the names
  };
  static constexpr size_t kMaxSteps = 64;
  static constexpr size_t kMaxDepth = 16;    ///< of the stack
  static constexpr size_t kMaxNames = 1024;  ///< more names are not searched

  /// Parses `name`. Returns nothing if it is not a formula of other `names`, but a plain name.
  static std::optional<DimensionFormula> parse(std::string_view name, std::span<const std::string_view> names);

  const std::vector<Step>& steps() const { return steps_; }
  bool reads(size_t position) const;

  /// Evaluates the formula at the sizes of all `names`. Returns nothing if the result is negative, a fraction, or
  /// beyond 2^62. Allocates nothing.
  std::optional<int64_t> value(std::span<const int64_t> sizes) const;

  struct Bounds {
    int64_t least, greatest;
  };
  /// Returns an upper bound of the formula over all sizes within `bounds`, by interval arithmetic, which does not see
  /// that a dimension may cancel out. May be negative; nothing on overflow.
  std::optional<int64_t> greatest(std::span<const Bounds> bounds) const;

 private:
  class Parser;
  std::vector<Step> steps_;
};

}  // namespace tessera::compiler
