#pragma once

#include <span>
#include <vector>

#include "compiler/ir/dimension_formula.h"
#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// The ranges of a variant that follow from other dimensions, as their names say ("past + 1"). Where sizes are given,
/// they are those of a run, of all dimensions of the variant in order.
class FollowedSizes {
 public:
  explicit FollowedSizes(const tessera_module_variant& variant);

  bool empty() const { return formulas_.empty(); }
  bool has(int32_t dimension) const { return find(dimension) != nullptr; }

  /// Whether each has the size that follows; the error names `inputs`' first tensor that has another.
  RuntimeStatus check(std::span<const int64_t> sizes, std::span<const tessera_module_tensor> inputs) const;

  /// Gives sizes that are negative, which are not known: a range its greatest, unless it follows.
  RuntimeStatus complete(std::span<int64_t> sizes) const;

 private:
  struct Followed {
    int32_t dimension = 0;
    DimensionFormula formula;
  };
  const Followed* find(int32_t dimension) const;
  RuntimeStatus wrongSize(const Followed& followed, std::span<const int64_t> sizes,
                          std::span<const tessera_module_tensor> inputs) const;
  RuntimeStatus noSize(const Followed& followed, std::span<const int64_t> sizes) const;
  /// The sizes that it follows from, for people.
  std::string causes(const Followed& followed, std::span<const int64_t> sizes) const;

  const tessera_module_variant& variant_;
  std::vector<Followed> formulas_;
};

}  // namespace tessera::compiler
