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

/// Longest accepted text, in bytes. Numbers are below 2^31, so that sums of them cannot overflow.
inline constexpr size_t kMaxAffineBytes = 256;

/// A sum of terms: a number, a name, or their product in either order. Names consist of letters, digits, '_' and '.',
/// and start with a letter. Fails with INVALID_ARGUMENT naming the column, the text found and the accepted syntax.
absl::StatusOr<Affine> parseAffine(std::string_view text);

/// "LEFT < RIGHT" as left - right, which is negative where the bound holds.
absl::StatusOr<Affine> parseBound(std::string_view text);

/// "2 * h + r - 1"; "0" for an empty expression. parseAffine() reads the result back.
std::string print(const Affine& affine);

}  // namespace tessera::compiler
