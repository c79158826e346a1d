#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/dimension_formula.h"

namespace tessera::compiler {

/// Sizes of symbolic dimensions by name, as they are bound so far; of ranges the greatest.
using DimensionSizes = std::map<std::string, int64_t>;

/// The symbolic dimensions of a model's inputs: which are bound as ranges, and which follow from others since they are
/// named by how they do (ir/dimension_formula.h).
class NamedDimensions {
 public:
  NamedDimensions() = default;
  /// `asked`: as in ImportOptions.dimensions.
  NamedDimensions(std::vector<std::string> names, std::map<std::string, int64_t> asked);

  const std::vector<std::string>& names() const { return names_; }
  bool isRange(const std::string& name) const;
  /// Null: a name that says nothing.
  const DimensionFormula* formulaOf(const std::string& name) const;
  std::vector<std::string> namesIn(const DimensionFormula& formula) const;
  /// Whether it is named by others all of which are in `sizes`.
  bool follows(const std::string& name, const DimensionSizes& sizes) const;
  /// Whether all that it is named by have one size in every run.
  bool followsSizes(const std::string& name) const;

  /// The size of a dimension that follows; of ranges the greatest it can have. Fails with INVALID_INPUT where there is
  /// none.
  absl::StatusOr<int64_t> followed(const std::string& name, const DimensionSizes& sizes) const;
  /// What a dimension of `sizes` is bound to; negative: a range. Fails with INVALID_INPUT when it follows from ranges,
  /// and was given another size.
  absl::StatusOr<int64_t> bound(const std::string& name, const DimensionSizes& sizes) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t> asked_;
  std::map<std::string, DimensionFormula> formulas_;
};

}  // namespace tessera::compiler
