// TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble of ai.onnx.ml: reads trees from attributes, and turns
// scores into results.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/ops/machine_learning.h"
#include "compiler/import/ops/trees.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kMaxWeights = int64_t{1} << 26;  ///< of all leaves for all targets

/// Returns numbers from a list of floats or, since version 3, from a tensor of the operator's type.
absl::StatusOr<std::vector<double>> numbers(Node& n, const std::string& name) {
  const std::string as_tensor = absl::StrCat(name, "_as_tensor");
  if (!n.hasAttribute(as_tensor)) return n.reals(name, std::vector<double>{});
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr values, n.tensor(as_tensor));
  return values->reals();
}

absl::StatusOr<BranchMode> branchMode(const Node& n, const std::string& word) {
  constexpr std::pair<const char*, BranchMode> kModes[] = {
      {"BRANCH_LEQ", BranchMode::kLessOrEqual},    {"BRANCH_LT", BranchMode::kLess},
      {"BRANCH_GTE", BranchMode::kGreaterOrEqual}, {"BRANCH_GT", BranchMode::kGreater},
      {"BRANCH_EQ", BranchMode::kEqual},           {"BRANCH_NEQ", BranchMode::kNotEqual}};
  for (const auto& [name, mode] : kModes) {
    if (word == name) return mode;
  }
  return n.invalid(absl::StrCat("no such mode of a branch: '", word, "'"),
                   {.attribute = "nodes_modes",
                    .found = word,
                    .accepted = "BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ, BRANCH_NEQ or LEAF"});
}

/// Reads the trees of versions 1 to 4, whose nodes are numbered within each tree. `weights`: "class" or "target".
absl::StatusOr<TreeEnsemble> readNumberedTrees(Node& n, const std::string& weights, int64_t targets) {
  TESSERA_ASSIGN_OR_RETURN(const auto trees, n.integers("nodes_treeids"));
  TESSERA_ASSIGN_OR_RETURN(const auto nodes, n.integers("nodes_nodeids"));
  TESSERA_ASSIGN_OR_RETURN(const auto features, n.integers("nodes_featureids"));
  TESSERA_ASSIGN_OR_RETURN(const auto modes, n.texts("nodes_modes"));
  TESSERA_ASSIGN_OR_RETURN(const auto when_true, n.integers("nodes_truenodeids"));
  TESSERA_ASSIGN_OR_RETURN(const auto when_false, n.integers("nodes_falsenodeids"));
  TESSERA_ASSIGN_OR_RETURN(const auto missing, n.integers("nodes_missing_value_tracks_true", std::vector<int64_t>{}));
  TESSERA_ASSIGN_OR_RETURN(const auto splits, numbers(n, "nodes_values"));
  for (const char* unused : {"nodes_hitrates", "nodes_hitrates_as_tensor"}) n.ignore(unused);
  const size_t count = trees.size();
  const std::pair<const char*, size_t> counts[] = {
      {"nodes_nodeids", nodes.size()},
      {"nodes_featureids", features.size()},
      {"nodes_modes", modes.size()},
      {"nodes_truenodeids", when_true.size()},
      {"nodes_falsenodeids", when_false.size()},
      {"nodes_values", splits.size()},
      {"nodes_missing_value_tracks_true", missing.empty() ? count : missing.size()}};
  for (const auto& [name, size] : counts) {
    if (size != count) return differentCounts(n, name, size, count);
  }

  using Key = std::pair<int64_t, int64_t>;  // of a node: its tree and its number in the tree
  // Nodes refer to each other by tree and number, in any order: the first pass finds their places.
  std::map<Key, TreePlace> places;
  std::set<int64_t> known_trees;
  TreeEnsemble ensemble;
  for (size_t i = 0; i < count; ++i) {
    const bool leaf = modes[i] == "LEAF";
    // Leaves and branches are numbered separately.
    const TreePlace place = {leaf, static_cast<int64_t>(leaf ? ensemble.leaves.size() : ensemble.branches.size())};
    if (!places.emplace(Key(trees[i], nodes[i]), place).second) {
      return n.invalid(absl::StrCat("tree ", trees[i], " has node ", nodes[i], " twice"),
                       {.attribute = "nodes_nodeids", .found = absl::StrCat(nodes[i])});
    }
    if (known_trees.insert(trees[i]).second) ensemble.roots.push_back(place);  // a tree's first node is its root
    if (leaf) {
      ensemble.leaves.emplace_back();
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(const BranchMode mode, branchMode(n, modes[i]));
    ensemble.branches.push_back({.mode = mode,
                                 .feature = features[i],
                                 .split = splits[i],
                                 .missing_is_true = !missing.empty() && missing[i] != 0});
  }
  // The second pass follows the references.
  for (size_t i = 0, branch = 0; i < count; ++i) {
    if (modes[i] == "LEAF") continue;
    TreeBranch& each = ensemble.branches[branch++];
    for (const bool side : {true, false}) {
      const int64_t child = (side ? when_true : when_false)[i];
      const auto place = places.find({trees[i], child});
      if (place == places.end()) {
        return n.invalid(
            absl::StrCat("node ", nodes[i], " of tree ", trees[i], " leads to a node that does not exist"),
            {.attribute = side ? "nodes_truenodeids" : "nodes_falsenodeids", .found = absl::StrCat(child)});
      }
      (side ? each.when_true : each.when_false) = place->second;
    }
  }

  TESSERA_ASSIGN_OR_RETURN(const auto of_trees, n.integers(weights + "_treeids"));
  TESSERA_ASSIGN_OR_RETURN(const auto of_nodes, n.integers(weights + "_nodeids"));
  TESSERA_ASSIGN_OR_RETURN(const auto of_targets, n.integers(weights + "_ids"));
  TESSERA_ASSIGN_OR_RETURN(const auto values, numbers(n, weights + "_weights"));
  for (const size_t size : {of_nodes.size(), of_targets.size(), values.size()}) {
    if (size != of_trees.size()) return differentCounts(n, weights + "_weights", size, of_trees.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto place = places.find({of_trees[i], of_nodes[i]});
    if (place == places.end() || of_targets[i] < 0 || of_targets[i] >= targets) {
      return n.invalid(
          absl::StrCat("weight ", i, " has no place"),
          {.attribute = weights + "_ids",
           .found = absl::StrCat("node ", of_nodes[i], " of tree ", of_trees[i], ", target ", of_targets[i]),
           .accepted = absl::StrCat("an existing node, a target below ", targets)});
    }
    // Weights of branches have no meaning.
    if (place->second.leaf) ensemble.leaves[place->second.index].push_back({of_targets[i], values[i]});
  }
  return ensemble;
}

/// Reads the trees of version 5, whose branches and leaves are numbered across all trees.
absl::StatusOr<TreeEnsemble> readTrees(Node& n, int64_t targets) {
  TESSERA_ASSIGN_OR_RETURN(const auto roots, n.integers("tree_roots"));
  TESSERA_ASSIGN_OR_RETURN(const auto features, n.integers("nodes_featureids"));
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr modes, n.tensor("nodes_modes"));
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr splits, n.tensor("nodes_splits"));
  TESSERA_ASSIGN_OR_RETURN(const auto missing, n.integers("nodes_missing_value_tracks_true", std::vector<int64_t>{}));
  std::vector<int64_t> child[2], is_leaf[2];
  for (const bool side : {false, true}) {
    const std::string name = side ? "nodes_true" : "nodes_false";
    TESSERA_ASSIGN_OR_RETURN(child[side], n.integers(name + "nodeids"));
    TESSERA_ASSIGN_OR_RETURN(is_leaf[side], n.integers(name + "leafs"));
  }
  TESSERA_ASSIGN_OR_RETURN(const auto leaf_targets, n.integers("leaf_targetids"));
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr weights, n.tensor("leaf_weights"));
  std::vector<double> members;
  if (n.hasAttribute("membership_values")) {
    // Lists of members, one behind the other.
    TESSERA_ASSIGN_OR_RETURN(const ConstantPtr values, n.tensor("membership_values"));
    members = values->reals();
  }
  n.ignore("nodes_hitrates");
  const size_t count = features.size(), leaves = leaf_targets.size();
  const std::pair<const char*, size_t> counts[] = {
      {"nodes_modes", modes->elements()},
      {"nodes_splits", splits->elements()},
      {"nodes_truenodeids", child[1].size()},
      {"nodes_falsenodeids", child[0].size()},
      {"nodes_trueleafs", is_leaf[1].size()},
      {"nodes_falseleafs", is_leaf[0].size()},
      {"nodes_missing_value_tracks_true", missing.empty() ? count : missing.size()}};
  for (const auto& [name, size] : counts) {
    if (size != count) return differentCounts(n, name, size, count);
  }
  if (static_cast<size_t>(weights->elements()) != leaves) {
    return differentCounts(n, "leaf_weights", weights->elements(), leaves);
  }

  TreeEnsemble ensemble;
  size_t member = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t mode = modes->integerAt(static_cast<int64_t>(i));
    if (mode < 0 || mode > static_cast<int64_t>(BranchMode::kMember)) {
      return n.invalid("no such mode of a branch",
                       {.attribute = "nodes_modes", .found = absl::StrCat(mode), .accepted = "0 to 6"});
    }
    TreeBranch branch = {.mode = static_cast<BranchMode>(mode),
                         .feature = features[i],
                         .split = splits->realAt(static_cast<int64_t>(i)),
                         .missing_is_true = !missing.empty() && missing[i] != 0};
    if (branch.mode == BranchMode::kMember) {
      // The members of each such branch end with a NaN.
      while (member < members.size() && !std::isnan(members[member])) branch.members.push_back(members[member++]);
      if (member == members.size()) {
        return n.invalid("a branch has no members",
                         {.attribute = "membership_values", .accepted = "a list that ends with NaN for each branch"});
      }
      ++member;
    }
    for (const bool side : {false, true}) {
      const int64_t to = child[side][i];
      const bool leaf = is_leaf[side][i] != 0;
      if (to < 0 || to >= static_cast<int64_t>(leaf ? leaves : count)) {
        return n.invalid(absl::StrCat("branch ", i, " leads to a node that does not exist"),
                         {.attribute = side ? "nodes_truenodeids" : "nodes_falsenodeids", .found = absl::StrCat(to)});
      }
      (side ? branch.when_true : branch.when_false) = {leaf, to};
    }
    ensemble.branches.push_back(std::move(branch));
  }
  for (size_t i = 0; i < leaves; ++i) {
    if (leaf_targets[i] < 0 || leaf_targets[i] >= targets) {
      return n.invalid("a leaf has no target", {.attribute = "leaf_targetids",
                                                .found = absl::StrCat(leaf_targets[i]),
                                                .accepted = absl::StrCat("below n_targets, ", targets)});
    }
    ensemble.leaves.push_back({{leaf_targets[i], weights->realAt(static_cast<int64_t>(i))}});
  }
  for (const int64_t root : roots) {
    if (root < 0 || root >= static_cast<int64_t>(count)) {
      return n.invalid("a root does not exist", {.attribute = "tree_roots", .found = absl::StrCat(root)});
    }
    // A tree of a single leaf has a branch with that leaf on both sides.
    ensemble.roots.push_back({false, root});
  }
  return ensemble;
}

/// Returns the scores of the rows of input 0, in their arithmetic type.
absl::StatusOr<Tensor> scoresOf(Node& n, Emitter& e, const TreeEnsemble& ensemble, int64_t targets,
                                Aggregate aggregate) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, featureRows(n, e));
  for (const TreeBranch& branch : ensemble.branches) {
    if (branch.feature >= 0 && branch.feature < x.shape[1]) continue;
    return n.invalid(absl::StrCat("a branch reads feature ", branch.feature, " of ", x.shape[1]),
                     {.attribute = "nodes_featureids",
                      .found = absl::StrCat(branch.feature),
                      .accepted = absl::StrCat("0 to ", x.shape[1] - 1)});
  }
  if (ensemble.roots.empty()) return n.invalid("there is no tree", {.attribute = "nodes_treeids", .found = "none"});
  TESSERA_RETURN_IF_ERROR(n.checkResult({x.shape[0], static_cast<int64_t>(ensemble.roots.size())}, kF64));
  TESSERA_RETURN_IF_ERROR(n.checkResult({x.shape[0], targets}, kF64));
  if (static_cast<int64_t>(ensemble.leaves.size()) > kMaxWeights / targets) {
    return n.unsupported("the table of weights is too large",
                         {.attribute = "n_targets",
                          .found = absl::StrCat(ensemble.leaves.size(), " leaves, ", targets, " targets"),
                          .accepted = absl::StrCat("a product of up to ", kMaxWeights)});
  }
  // Errors here are those of the trees' structure.
  absl::StatusOr<Tensor> scores = scoreTrees(e, x, ensemble, targets, aggregate);
  if (scores.ok()) return scores;
  return n.invalid(std::string(scores.status().message()), {.attribute = "nodes_truenodeids"});
}

absl::StatusOr<std::vector<double>> baseValues(Node& n, std::initializer_list<size_t> accepted) {
  TESSERA_ASSIGN_OR_RETURN(auto values, numbers(n, "base_values"));
  if (values.empty() || std::find(accepted.begin(), accepted.end(), values.size()) != accepted.end()) return values;
  return differentCounts(n, "base_values", values.size(), *(accepted.end() - 1));
}

/// Adds `values` to the scores of each row.
Tensor plusBase(Emitter& e, const Tensor& scores, const std::vector<double>& values) {
  if (values.empty()) return scores;
  const Tensor base = Emitter::wrap(realConstant(scores.dtype, {static_cast<int64_t>(values.size())}, values));
  return e.elementwise(scores.dtype, {scores, base},
                       [](const Scalars& s, mlir::ValueRange v) { return s.add(v[0], v[1]); });
}

absl::StatusOr<int64_t> targetCount(Node& n) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t targets, n.integer("n_targets", 1));
  if (targets >= 1 && targets <= INT32_MAX) return targets;
  return n.invalid("no number of targets",
                   {.attribute = "n_targets", .found = absl::StrCat(targets), .accepted = "1 or more"});
}

/// Returns scores in the type of comparison, with the operations after their aggregation.
Results scoresToTargets(Node& n, Emitter& e, const TreeEnsemble& ensemble, int64_t targets, Aggregate aggregate,
                        PostTransform transform, const std::vector<double>& base, v1::DataType result) {
  TESSERA_ASSIGN_OR_RETURN(Tensor scores, scoresOf(n, e, ensemble, targets, aggregate));
  scores = plusBase(e, scores, base);
  // As in ONNX Runtime, a single score is transformed only by probit.
  if (targets > 1 || transform == PostTransform::kProbit) scores = transformed(e, scores, transform);
  return {{e.cast(scores, result)}};
}

Results lowerRegressor(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t targets, targetCount(n));
  TESSERA_ASSIGN_OR_RETURN(const std::string word, n.text("aggregate_function", "SUM"));
  const std::map<std::string, Aggregate> words = {
      {"SUM", Aggregate::kSum}, {"AVERAGE", Aggregate::kAverage}, {"MIN", Aggregate::kMin}, {"MAX", Aggregate::kMax}};
  const auto aggregate = words.find(word);
  if (aggregate == words.end()) {
    return n.invalid(absl::StrCat("no such function: '", word, "'"),
                     {.attribute = "aggregate_function", .found = word, .accepted = "SUM, AVERAGE, MIN or MAX"});
  }
  TESSERA_ASSIGN_OR_RETURN(const PostTransform transform, postTransform(n));
  TESSERA_ASSIGN_OR_RETURN(const auto base, baseValues(n, {static_cast<size_t>(targets)}));
  TESSERA_ASSIGN_OR_RETURN(const TreeEnsemble ensemble, readNumberedTrees(n, "target", targets));
  return scoresToTargets(n, e, ensemble, targets, aggregate->second, transform, base, kF32);
}

Results lowerTreeEnsemble(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t targets, targetCount(n));
  TESSERA_ASSIGN_OR_RETURN(const int64_t aggregate, n.integer("aggregate_function", 1));
  TESSERA_ASSIGN_OR_RETURN(const int64_t transform, n.integer("post_transform", 0));
  constexpr Aggregate kAggregates[] = {Aggregate::kAverage, Aggregate::kSum, Aggregate::kMin, Aggregate::kMax};
  constexpr PostTransform kTransforms[] = {PostTransform::kNone, PostTransform::kSoftmax, PostTransform::kLogistic,
                                           PostTransform::kSoftmaxZero, PostTransform::kProbit};
  if (aggregate < 0 || aggregate > 3) {
    return n.invalid("no such function", {.attribute = "aggregate_function",
                                          .found = absl::StrCat(aggregate),
                                          .accepted = "0 (average), 1 (sum), 2 (min) or 3 (max)"});
  }
  if (transform < 0 || transform > 4) {
    return n.invalid(
        "no such transform",
        {.attribute = "post_transform", .found = absl::StrCat(transform), .accepted = "0 (none) to 4 (probit)"});
  }
  TESSERA_ASSIGN_OR_RETURN(const TreeEnsemble ensemble, readTrees(n, targets));
  return scoresToTargets(n, e, ensemble, targets, kAggregates[aggregate], kTransforms[transform], {}, n.in(0).dtype);
}

/// Returns whether the only score of a row is above `border`.
Tensor above(Emitter& e, const Tensor& score, double border) {
  const Tensor rows = e.reshape(score, {score.shape[0]});
  return e.elementwise(v1::DATA_TYPE_BOOL, {rows}, [&](const Scalars& s, mlir::ValueRange v) {
    return s.compare(Relation::kGreater, v[0], s.constant(border));
  });
}

Results lowerClassifier(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const ClassLabels labels, classLabels(n, "classlabels_int64s", "classlabels_strings"));
  const auto classes = static_cast<int64_t>(labels.values.size());
  TESSERA_ASSIGN_OR_RETURN(const PostTransform transform, postTransform(n));
  TESSERA_ASSIGN_OR_RETURN(const TreeEnsemble ensemble, readNumberedTrees(n, "class", classes));
  // Finds out how the weights vote, because ONNX Runtime distinguishes these cases.
  std::set<int64_t> voted;
  bool negative = false, partial = false;
  for (const auto& leaf : ensemble.leaves) {
    std::set<int64_t> here;
    for (const LeafWeight& each : leaf) {
      here.insert(each.target);
      negative |= each.weight < 0;
    }
    voted.insert(here.begin(), here.end());
    partial |= static_cast<int64_t>(here.size()) < classes;
  }
  // There are two classes, but only the first has weights.
  const bool binary = classes == 2 && voted == std::set<int64_t>{0};
  TESSERA_ASSIGN_OR_RETURN(const auto base,
                           baseValues(n, {binary ? size_t{1} : labels.values.size(), labels.values.size()}));
  if (binary && base.size() <= 1) {
    TESSERA_ASSIGN_OR_RETURN(Tensor votes, scoresOf(n, e, ensemble, 1, Aggregate::kSum));
    votes = plusBase(e, votes, base);
    if (transform == PostTransform::kProbit) {
      return n.unsupported("probit of two classes with weights for one",
                           {.attribute = "post_transform", .found = "PROBIT", .accepted = "NONE or LOGISTIC"});
    }
    // Trees vote for the first class only, as converters write binary classifiers: the score is the second class's.
    return {{labelOf(e, labels, above(e, votes, negative ? 0 : 0.5)),
             e.cast(scoresOfBoth(e, votes, !negative, transform), kF32)}};
  }
  TESSERA_ASSIGN_OR_RETURN(Tensor scores, scoresOf(n, e, ensemble, classes, Aggregate::kSum));
  scores = plusBase(e, scores, base);
  Tensor compared = scores;
  if (partial && negative && base.empty()) {
    // A class without a vote from a row's leaves is not chosen, even if all others have negative scores.
    TreeEnsemble votes = ensemble;
    for (auto& leaf : votes.leaves) {
      for (LeafWeight& each : leaf) each.weight = 1;
    }
    TESSERA_ASSIGN_OR_RETURN(const Tensor has, scoresOf(n, e, votes, classes, Aggregate::kMax));
    compared = e.elementwise(scores.dtype, {scores, has}, [](const Scalars& s, mlir::ValueRange v) {
      return s.select(s.compare(Relation::kGreater, v[1], s.constant(0)), v[0], s.lowest());
    });
  }
  Tensor label;
  if (classes == 2 && voted == std::set<int64_t>{1} && base.empty()) {
    // The second class is chosen by its own score, not because it exceeds the first one's.
    label = labelOf(e, labels, above(e, e.take(scores, 1, 1), negative ? 0 : 0.5));
  } else {
    label = labelOf(e, labels, greatest(e, compared));
  }
  return {{label, e.cast(transformed(e, scores, transform), kF32)}};
}

}  // namespace

std::vector<Operator> treeOperators() {
  return ofRows({
      {"TreeEnsembleClassifier", 1, 1, 1, lowerClassifier, kFeatures},
      {"TreeEnsembleRegressor", 1, 1, 1, lowerRegressor, kFeatures},
      {"TreeEnsemble", 5, 1, 1, lowerTreeEnsemble, kFloats},
  });
}

}  // namespace tessera::compiler
