#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/dimension_formula.h"

namespace tessera::compiler {

/// Sizes of symbolic dimensions by name, as bound so far; for ranges their bounds.
using DimensionSizes = std::map<std::string, int64_t>;

/// The symbolic dimensions of a model's inputs. A dimension is *derived* if its name is a formula of others, such as
/// "past + 1" (ir/dimension_formula.h).
class NamedDimensions {
 public:
  NamedDimensions() = default;
  /// `asked`: as in ImportOptions.dimensions.
  NamedDimensions(std::vector<std::string> names, std::map<std::string, int64_t> asked);

  const std::vector<std::string>& names() const { return names_; }
  bool isRange(const std::string& name) const;
  /// Returns the formula of a derived dimension; null for others.
  const DimensionFormula* formulaOf(const std::string& name) const;
  std::vector<std::string> namesIn(const DimensionFormula& formula) const;
  /// Whether the dimension is derived, and `sizes` has all dimensions of its formula.
  bool isDerivableFrom(const std::string& name, const DimensionSizes& sizes) const;
  /// Whether the dimension is derived, and no dimension of its formula varies from run to run.
  bool derivesFromFixedSizes(const std::string& name) const;

  /// Returns the size of a derived dimension, or its bound if it depends on ranges. Fails with INVALID_INPUT if it has
  /// none.
  absl::StatusOr<int64_t> derivedSize(const std::string& name, const DimensionSizes& sizes) const;
  /// Returns the size that a dimension of `sizes` is bound to; negative: a range. Fails with INVALID_INPUT if the
  /// dimension is derived from ranges and `sizes` has a size that disagrees with its formula.
  absl::StatusOr<int64_t> bound(const std::string& name, const DimensionSizes& sizes) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t> asked_;
  std::map<std::string, DimensionFormula> formulas_;
};

}  // namespace tessera::compiler
