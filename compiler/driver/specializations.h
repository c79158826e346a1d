#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/job.pb.h"

namespace tessera::compiler {

/// What one variant of an artifact binds, the specification's own bindings included.
struct Bindings {
  std::map<std::string, int64_t> dimensions;  ///< negative: a range, at most so many
  std::map<std::string, std::vector<int64_t>> input_shapes;

  auto operator<=>(const Bindings&) const = default;
  /// "batch=4 seq=128 x=4x8"; empty when nothing is bound.
  std::string text() const;
};

/// The variants that a specification asks for, at least one, in an order that does not depend on that in the
/// specification: smallest first. Fails with INVALID_INPUT when a name is bound twice in one variant, two variants
/// bind the same, or there are more than an artifact can hold.
absl::StatusOr<std::vector<Bindings>> variantsOf(const v1::CompileSpec& spec);

/// The least size that runs of one of the variants have, of each dimension that is a range in it: less runs in a
/// smaller one of the others.
std::map<std::string, int64_t> leastSizes(const std::vector<Bindings>& variants, const Bindings& variant);

}  // namespace tessera::compiler
