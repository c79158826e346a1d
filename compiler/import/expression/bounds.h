#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/expression/syntax.h"

namespace tessera::compiler::expression {

/// Named integers: params and symbolic extents of inputs.
using Constants = std::map<std::string, int64_t>;
/// Extents of the tensors that a statement may read.
using Shapes = std::map<std::string, std::vector<int64_t>>;

/// Evaluates an expression of constants, with floor division. An overflow is an error.
absl::StatusOr<int64_t> evaluate(const Node& node, const Constants& constants);

/// A subscript as a sum of variables: offset + sum of factor * variable. `linear` is false if the subscript contains /
/// or % of variables, or products of them; the other fields are then empty.
struct Subscript {
  bool linear = true;
  int64_t offset = 0;
  std::map<std::string, int64_t> factors;
};
absl::StatusOr<Subscript> analyse(const Node& node, const Constants& constants);

/// One loop of a statement: 0 <= variable < extent.
struct Loop {
  std::string variable;
  int64_t extent = 0;
  bool reduction = false;
};

/// Infers a statement's loops: those of its result first, then the reduced ones in order of appearance.
///
/// Extents come from `where`, then from subscripts that are one variable (its tensor's extent), then from linear
/// subscripts with one unknown variable: the largest extent that keeps every read within its tensor. A read under a
/// condition bounds a variable only if the variable is the whole subscript. Fails if an extent cannot be inferred, if
/// two disagree, or if an unconditional read may leave its tensor.
absl::StatusOr<std::vector<Loop>> inferLoops(const Statement& statement, const Shapes& shapes,
                                             const Constants& constants);

}  // namespace tessera::compiler::expression
