#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

/// Affine expressions as text: subscripts "2 * h + r" and bounds "i + r < 16" of instructions and loop nests.
namespace tessera::compiler {

/// constant + sum of coefficient * name.
struct Affine {
  std::vector<std::pair<std::string, int64_t>> terms;  ///< in order of appearance, each name once, no coefficient 0
  int64_t constant = 0;

  int64_t coefficientOf(std::string_view name) const;  ///< 0 for a name that does not occur
  bool operator==(const Affine&) const = default;
};

/// Longest text that is read, in bytes. Numbers are below 2^31, so that no sum of them overflows.
inline constexpr size_t kMaxAffineBytes = 256;

/// Sums of terms: a number, a name, or their product in either order. Names are letters, digits, '_' and '.', and
/// start with a letter. Fails with INVALID_ARGUMENT that names the column, what was found and what is accepted.
absl::StatusOr<Affine> parseAffine(std::string_view text);

/// "LEFT < RIGHT" as left - right, which is below 0 where the bound holds.
absl::StatusOr<Affine> parseBound(std::string_view text);

/// "2 * h + r - 1"; "0" for nothing. What parseAffine reads back.
std::string print(const Affine& affine);

}  // namespace tessera::compiler
