#pragma once

#include <span>
#include <vector>

#include "compiler/ir/dimension_formula.h"
#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// The derived ranges of a variant: those whose name is a formula of other dimensions ("past + 1"). `sizes` arguments
/// have the sizes of a run for all dimensions of the variant, in order.
class DerivedDims {
 public:
  explicit DerivedDims(const tessera_module_variant& variant);

  bool empty() const { return formulas_.empty(); }
  bool has(int32_t dimension) const { return find(dimension) != nullptr; }

  /// Checks that each derived range has the value of its formula. The error names the first of `inputs` that has
  /// another size.
  RuntimeStatus check(std::span<const int64_t> sizes, std::span<const tessera_module_tensor> inputs) const;

  /// Fills in negative (unknown) sizes: derived ranges get the value of their formula, other ranges their greatest
  /// size.
  RuntimeStatus complete(std::span<int64_t> sizes) const;

 private:
  struct Derived {
    int32_t dimension = 0;
    DimensionFormula formula;
  };
  const Derived* find(int32_t dimension) const;
  RuntimeStatus wrongSize(const Derived& derived, std::span<const int64_t> sizes,
                          std::span<const tessera_module_tensor> inputs) const;
  RuntimeStatus noSize(const Derived& derived, std::span<const int64_t> sizes) const;
  /// The sizes of the dimensions in its formula, for error messages.
  std::string causes(const Derived& derived, std::span<const int64_t> sizes) const;

  const tessera_module_variant& variant_;
  std::vector<Derived> formulas_;
};

}  // namespace tessera::compiler
