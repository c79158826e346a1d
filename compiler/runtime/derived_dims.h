#pragma once

#include <span>
#include <vector>

#include "compiler/ir/dimension_formula.h"
#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// The ranges of a variant whose size follows from other dimensions, as their names say ("past + 1"). `sizes` arguments
/// have the sizes of a run for all dimensions of the variant, in order.
class DerivedDims {
 public:
  explicit DerivedDims(const tessera_module_variant& variant);

  bool empty() const { return formulas_.empty(); }
  bool has(int32_t dimension) const { return find(dimension) != nullptr; }

  /// Checks that each such range has the size that follows. The error names the first of `inputs` with a different
  /// size.
  RuntimeStatus check(std::span<const int64_t> sizes, std::span<const tessera_module_tensor> inputs) const;

  /// Fills in negative (unknown) sizes: ranges that follow from others by their formula, other ranges with their
  /// greatest size.
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
  /// The sizes from which it follows, for error messages.
  std::string causes(const Followed& followed, std::span<const int64_t> sizes) const;

  const tessera_module_variant& variant_;
  std::vector<Followed> formulas_;
};

}  // namespace tessera::compiler
