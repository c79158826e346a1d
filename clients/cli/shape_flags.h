#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/support/cli11.h"
#include "tessera/v1/job.pb.h"

/// `--shape` and `--dim`: what the symbolic dimensions of a model's inputs are.
namespace tessera::client {

/// "x=1x3x224x224" -> name and extents; "x=" is a scalar.
absl::StatusOr<v1::InputShape> parseShape(const std::string& text);

/// A dimension's name and the sizes it is to have.
struct DimensionSizes {
  std::string name;
  std::vector<int64_t> sizes;
  bool range = false;   ///< each stands for all sizes up to it
  bool chosen = false;  ///< sizes of a range that were named one by one
};

/// "batch=1,4,8", "seq=128..512:128" (from, to, step; both ends included), "n=1..4,8". "batch=1..64" alone is a range:
/// its sizes are both ends and the first one's doubles between them (fewer where several dimensions are ranges). So is
/// "batch=..64", one variant for all of it, and "batch=..8,..64", two. "total=past + tokens" says that a dimension
/// follows from others: all of it is the name then, without a size.
absl::StatusOr<DimensionSizes> parseDimension(const std::string& text);

struct ShapeFlags {
  std::vector<std::string> shapes;
  std::vector<std::string> dimensions;

  /// For commands that compile: several sizes make several variants.
  void addTo(CLI::App* command);
  /// For commands that run: they choose one variant.
  void addChoiceTo(CLI::App* command);

  /// Binds what has one size in the specification itself. Dimensions with several sizes make specializations, one for
  /// each combination; shapes of inputs that are given k times make k, the i-th of each input together, times those.
  absl::Status fill(v1::CompileSpec& spec) const;
  /// Which sizes several ranges are combined of, in words: not all that each would have alone, where these are many.
  /// Empty for one range or none.
  std::string rangesText() const;
  /// One size and one shape for each name, for commands that run.
  absl::StatusOr<v1::Specialization> choice() const;
};

}  // namespace tessera::client
