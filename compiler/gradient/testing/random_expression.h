#pragma once

#include <cstdint>
#include <string>

namespace tessera::compiler::gradient::testing {

/// A tensor expression, drawn from a seed.
struct RandomExpression {
  std::string text;
  std::string family;      ///< kind of expression: "convolution", "quotients", ...
  bool polynomial = true;  ///< in its inputs: integer inputs give exact derivatives
};

/// Strides, dilation, padding, groups and overlapping windows; depth to space and other quotients and remainders,
/// paired or not; several inputs and statements; conditions on indices and on values; products, maxima and minima; exp,
/// division and other functions. Few hundred iterations each.
RandomExpression randomExpression(uint64_t seed);

}  // namespace tessera::compiler::gradient::testing
