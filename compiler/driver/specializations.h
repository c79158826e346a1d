#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/job.pb.h"

namespace tessera::compiler {

/// The sizes that one variant of an artifact binds, the specification's own bindings included.
struct Bindings {
  std::map<std::string, int64_t> dimensions;  ///< negative: a range with this upper bound
  std::map<std::string, std::vector<int64_t>> input_shapes;

  auto operator<=>(const Bindings&) const = default;
  /// Returns "batch=4 seq=128 x=4x8"; empty if nothing is bound.
  std::string text() const;
};

/// Returns the variants that a specification requests, at least one, smallest first, whatever the order in the
/// specification. Fails with INVALID_INPUT if a name is bound twice in one variant, two variants bind the same sizes,
/// or there are more variants than an artifact can hold.
absl::StatusOr<std::vector<Bindings>> variantsOf(const v1::CompileSpec& spec);

/// Returns, for each ranged dimension of `variant`, the least size with which a run uses this variant. Runs with
/// smaller sizes use a smaller one of `variants`.
std::map<std::string, int64_t> minSizes(const std::vector<Bindings>& variants, const Bindings& variant);

}  // namespace tessera::compiler
