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
  bool range = false;   ///< the variant of each size also runs all smaller sizes
  bool listed = false;  ///< the user listed the sizes of the range ("..8,..64"), so that none may be dropped
};

/// Parses the value of --dim:
///
///   batch=1,4,8          a list of sizes
///   seq=128..512:128     a list, from..to:step: 128, 256, 384, 512
///   n=1..4,8             a list: 1, 2, 3, 4, 8
///   batch=1..64          a range: runs may have any size; variants for 1, 2, 4, 8, 16, 32, 64
///   batch=7..50          a range with variants for 7, 14, 28, 50
///   batch=..64           a range with one variant, for 64
///   batch=..8,..64       a range with two variants
///   total=past + tokens  derived from other dimensions: the whole text is the name, the size is 0
///
/// If several dimensions are ranges of the form from..to, fill() drops sizes of them to bound the number of variants.
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
