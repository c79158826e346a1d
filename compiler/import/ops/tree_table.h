#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::compiler {

/// How a branch compares a feature x with its split. kMember: x is one of the branch's members.
enum class BranchMode { kLessOrEqual, kLess, kGreaterOrEqual, kGreater, kEqual, kNotEqual, kMember };

/// A place in an ensemble: branch `index`, or leaf `index`.
struct TreePlace {
  bool leaf = false;
  int64_t index = 0;
};

struct TreeBranch {
  BranchMode mode = BranchMode::kLessOrEqual;
  int64_t feature = 0;
  double split = 0;
  std::vector<double> members = {};
  bool missing_is_true = false;  ///< where a NaN goes
  TreePlace when_true = {}, when_false = {};
};

struct LeafWeight {
  int64_t target = 0;
  double weight = 0;
};

/// Decision trees as a model has them. Branches of different trees are different; leaves may be shared.
struct TreeEnsemble {
  std::vector<TreeBranch> branches = {};
  std::vector<std::vector<LeafWeight>> leaves = {};
  std::vector<TreePlace> roots = {};
};

/// Trees as tables that a loop without branches walks: from node i on to children[i] where x <= splits[i], and to
/// children[i] + 1 elsewhere. x is feature keys[i] / 2, and a NaN goes to children[i] where keys[i] is odd. Leaves lead
/// to themselves, so that any number of steps from `depth` on ends in the same leaf.
struct TreeTable {
  std::vector<int64_t> roots = {};                             ///< a node for each tree
  std::vector<int64_t> keys = {}, children = {}, leaves = {};  ///< `leaves`: the leaf that a node is, or 0
  std::vector<double> splits = {};
  std::vector<int64_t> depths = {};  ///< steps to the farthest leaf of each tree
  int64_t depth = 0;                 ///< the greatest of them
};

/// The table of an ensemble. Every mode becomes comparisons by <=, with the next lower number of single precision
/// (`single`) or double precision as split where a mode is strict. An error says which branch has two parents or
/// contains itself, or that there are too many nodes.
absl::StatusOr<TreeTable> tabulateTrees(const TreeEnsemble& ensemble, bool single);

}  // namespace tessera::compiler
