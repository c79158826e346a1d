#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::compiler {

/// How a branch compares a feature x with its split. kMember: x is one of the branch's members.
enum class BranchMode { kLessOrEqual, kLess, kGreaterOrEqual, kGreater, kEqual, kNotEqual, kMember };

/// A node of an ensemble: branch `index`, or leaf `index`.
struct TreePlace {
  bool leaf = false;
  int64_t index = 0;
};

struct TreeBranch {
  BranchMode mode = BranchMode::kLessOrEqual;
  int64_t feature = 0;
  double split = 0;
  std::vector<double> members = {};
  bool missing_is_true = false;  ///< whether a NaN takes the true branch
  TreePlace when_true = {}, when_false = {};
};

struct LeafWeight {
  int64_t target = 0;
  double weight = 0;
};

/// Decision trees as in the model. Trees do not share branches; they may share leaves.
struct TreeEnsemble {
  std::vector<TreeBranch> branches = {};
  std::vector<std::vector<LeafWeight>> leaves = {};
  std::vector<TreePlace> roots = {};
};

/// Trees as tables for a walk without branches: node i leads to children[i] if x <= splits[i], and to children[i] + 1
/// otherwise. x is feature keys[i] / 2; a NaN leads to children[i] if keys[i] is odd. Leaves lead to themselves, so
/// that any number of steps of at least `depth` ends in the same leaf.
struct TreeTable {
  std::vector<int64_t> roots = {};                             ///< the root node of each tree
  std::vector<int64_t> keys = {}, children = {}, leaves = {};  ///< `leaves`: the leaf number of a node, or 0
  std::vector<double> splits = {};
  std::vector<int64_t> depths = {};  ///< depth of each tree
  int64_t depth = 0;                 ///< the greatest depth
};

/// Builds the table of an ensemble. Every mode becomes comparisons by <=; a strict mode uses the next lower number, in
/// single (`single`) or double precision, as split. Errors name a branch with two parents or a cycle, or say that there
/// are too many nodes.
absl::StatusOr<TreeTable> tabulateTrees(const TreeEnsemble& ensemble, bool single);

}  // namespace tessera::compiler
