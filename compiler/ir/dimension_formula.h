#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::compiler {

/// What the name of a dimension says of it where exporters named it by how it follows from others: "past + 1",
/// "2*tokens", "batch*heads", "(s0//2)", "floor(width/2 - 1/2) + 1". Numbers, names of other dimensions, + - * /, //
/// and floor and ceiling, with divisors that are numbers.
///
/// The name is all that says so, in a model and in an artifact: who compiles and who runs it read it alike.
class DimensionFormula {
 public:
  enum class Kind { kNumber, kDimension, kAdd, kSubtract, kMultiply, kDivide, kFloor, kCeiling };
  /// One step on a stack of fractions: pushes a number or a dimension's size, combines the last two, divides the last
  /// by a number, or rounds it.
  struct Step {
    Kind kind = Kind::kNumber;
    int64_t number = 0;  ///< or position among the names
  };
  static constexpr size_t kMostSteps = 64;
  static constexpr size_t kMostDepth = 16;    ///< of the stack
  static constexpr size_t kMostNames = 1024;  ///< among more none is looked for

  /// Nothing for a name that is not made of others among `names`: it is a name and nothing else.
  static std::optional<DimensionFormula> parse(std::string_view name, std::span<const std::string_view> names);

  const std::vector<Step>& steps() const { return steps_; }
  bool reads(size_t position) const;

  /// By the sizes of all `names`; nothing where that is no size: negative, a fraction, or beyond 2^62. Allocates
  /// nothing.
  std::optional<int64_t> value(std::span<const int64_t> sizes) const;

  struct Bounds {
    int64_t least, greatest;
  };
  /// No size is greater while all others are within their bounds, by arithmetic of intervals: what a dimension both
  /// adds and takes away is not seen to cancel out. May be negative; nothing where it overflows.
  std::optional<int64_t> greatest(std::span<const Bounds> bounds) const;

 private:
  class Parser;
  std::vector<Step> steps_;
};

}  // namespace tessera::compiler
