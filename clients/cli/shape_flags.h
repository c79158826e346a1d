#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/support/cli11.h"
#include "tessera/v1/job.pb.h"

/// `--shape` and `--dim`: sizes for the symbolic dimensions of a model's inputs.
namespace tessera::client {

/// Parses "x=1x3x224x224" into name and extents; "x=" is a scalar.
absl::StatusOr<v1::InputShape> parseShape(const std::string& text);

/// A dimension's name and its sizes.
struct DimensionSizes {
  std::string name;
  std::vector<int64_t> sizes;
  bool range = false;   ///< each size stands for all sizes up to it
  bool chosen = false;  ///< sizes of a range that were listed explicitly
};

/// Parses the value of --dim. "batch=1,4,8", "seq=128..512:128" (from, to, step; both ends included) and "n=1..4,8" are
/// lists of sizes. "batch=1..64" alone is a range: its sizes are both ends and the repeated doubles of the first one
/// between them (fewer if several dimensions are ranges). "batch=..64" is a range with one variant, and
/// "batch=..8,..64" one with two. "total=past + tokens" derives a dimension from others: the whole text is the name,
/// without a size.
absl::StatusOr<DimensionSizes> parseDimension(const std::string& text);

struct ShapeFlags {
  std::vector<std::string> shapes;
  std::vector<std::string> dimensions;

  /// For commands that compile: several sizes make several variants.
  void addTo(CLI::App* command);
  /// For commands that run: the flags select one variant.
  void addChoiceTo(CLI::App* command);

  /// Stores single sizes in the specification itself. Dimensions with several sizes make specializations, one for each
  /// combination. If inputs have k shapes each, the i-th shapes of all inputs form a combination.
  absl::Status fill(v1::CompileSpec& spec) const;
  /// States the sizes of several combined ranges, if these are fewer than each range would have alone. Empty for at
  /// most one range.
  std::string rangesText() const;
  /// Returns one size and one shape for each name, for commands that run.
  absl::StatusOr<v1::Specialization> choice() const;
};

}  // namespace tessera::client
