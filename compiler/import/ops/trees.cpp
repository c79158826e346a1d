// Decision trees as loops over tables. A step of a walk is four dependent loads without a branch, about twenty cycles;
// a core is busy only with several interleaved walks. So one iteration of the loop walks several trees.
#include "compiler/import/ops/trees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kSteps = 16;            ///< of one operation; longer walks continue in the next one
constexpr int64_t kBlockNodes = 1 << 16;  ///< of a table that stays in a private cache while all rows pass: 512 KiB
constexpr size_t kMaxBlocks = 16;
constexpr size_t kMaxLeaves = size_t{1} << 24;  ///< integers that f32 represents exactly
constexpr int64_t kMaxParts = 32;               ///< most targets whose trees are walked separately
constexpr int64_t kManyRows = 32;               ///< with fewer rows, a table is hardly read twice

/// Number of interleaved walks; fewer for deep trees, whose code is long.
int64_t walksTogether(int64_t depth) { return depth <= 8 ? 8 : 4; }

int64_t roundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

AffineMap mapOf(Emitter& e, unsigned dims, std::initializer_list<unsigned> results) {
  llvm::SmallVector<mlir::AffineExpr> exprs;
  for (unsigned d : results) exprs.push_back(e.b.getAffineDimExpr(d));
  return AffineMap::get(dims, 0, exprs, e.b.getContext());
}

Tensor tableOf(v1::DataType dtype, const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) {
    const auto narrow = static_cast<int32_t>(value);
    if (dtype == kI32) bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
    if (dtype == kI64) bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return Emitter::wrap(makeConstant(dtype, {static_cast<int64_t>(values.size())}, std::move(bytes)));
}

/// Rows as tables index them: the features; if some branch sends NaN to its first child, the features again with
/// -infinity for NaN; and a column of -infinity, which is below the split field of every leaf.
struct Samples {
  Tensor rows;
  int64_t missing_first = 0;  ///< first column of features without NaN
  int64_t lowest = 0;         ///< the column of -infinity
};

Samples samplesOf(Emitter& e, const Tensor& x, bool missing_first) {
  const int64_t features = x.shape[1];
  Tensor all = x;
  // A comparison with NaN is false, so it takes the second child. Features whose NaN takes the first child read a copy
  // in which NaN is -infinity.
  if (missing_first) {
    const Tensor known = e.elementwise(x.dtype, {x}, [](const Scalars& s, ValueRange v) {
      return s.select(s.compare(Relation::kNotEqual, v[0], v[0]), s.lowest(), v[0]);
    });
    all = e.concat({x, known}, 1);
  }
  const int64_t columns = all.shape[1];
  // Leaves read the column of -infinity: the comparison with their split holds, and they step to themselves.
  return {e.pad(all, {0, 0}, {0, 1}, e.scalars(x.dtype).lowest()), missing_first ? features : 0, columns};
}

/// A table in the module. One word of a node has the position of its children and its column of the samples. f32 splits
/// follow their words in the same table; others have a separate table.
class Walk {
 public:
  /// `results`: the values that leaves have in their split field.
  Walk(Emitter& e, const TreeTable& table, const Samples& samples, const std::vector<double>& results)
      : e_(e), samples_(e.value(samples.rows)), real_(samples.rows.dtype) {
    const auto nodes = static_cast<int64_t>(table.keys.size());
    column_bits_ = std::bit_width(static_cast<uint64_t>(samples.lowest));
    // Positions and columns that fit 32 bits halve the table, which then stays in a nearer cache.
    const bool narrow = std::bit_width(static_cast<uint64_t>(2 * nodes)) + column_bits_ < 32;
    word_ = narrow ? kI32 : kI64;
    together_ = narrow && real_ == v1::DATA_TYPE_F32;
    stride_ = together_ ? 2 : 1;
    std::vector<int64_t> words;
    std::vector<double> splits;
    // Children of a node are neighbours, so that one position describes both.
    for (int64_t i = 0; i < nodes; ++i) {
      const bool leaf = table.children[i] == i;
      const int64_t column = leaf ? samples.lowest : table.keys[i] / 2 + (table.keys[i] % 2) * samples.missing_first;
      words.push_back(table.children[i] * stride_ << column_bits_ | column);
      const double split = leaf ? results[table.leaves[i]] : table.splits[i];
      if (together_) {
        // f32 splits lie behind their words, so that one cache line has both.
        words.push_back(std::bit_cast<int32_t>(static_cast<float>(split)));
      } else {
        splits.push_back(split);
      }
    }
    words_ = e.value(tableOf(word_, words));
    if (!together_) splits_ = e.value(Emitter::wrap(realConstant(real_, {nodes}, splits)));
    std::vector<int64_t> roots;
    for (const int64_t root : table.roots) roots.push_back(root * stride_);
    roots_ = tableOf(kI32, roots);
  }

  const Tensor& roots() const { return roots_; }

  /// Takes `steps` steps from each of `nodes` (index type) for a row, interleaved.
  void steps(const Scalars& s, Value row, int64_t steps, llvm::SmallVectorImpl<Value>& nodes) const {
    const Scalars word = s.as(word_), real = s.as(real_);
    const Value mask = word.integer((int64_t{1} << column_bits_) - 1), bits = word.integer(column_bits_);
    const Value first = index(s, 0), second = index(s, stride_);
    for (int64_t step = 0; step < steps; ++step) {
      // All walks take a step before the next step: their loads are independent and overlap.
      for (Value& node : nodes) {
        const Value packed = e_.extract(word, words_, {node});
        const Value column = cast(s, arith::AndIOp::create(s.b, s.loc, packed, mask));
        const Value children = cast(s, arith::ShRUIOp::create(s.b, s.loc, packed, bits));
        const Value value = e_.extract(real, samples_, {row, column});
        const Value below = real.compare(Relation::kLessOrEqual, value, split(s, node));
        // A select instead of a branch: a processor cannot predict which child is next.
        node = arith::AddIOp::create(s.b, s.loc, children, arith::SelectOp::create(s.b, s.loc, below, first, second));
      }
    }
  }

  /// Returns the split of a node, or the result of a leaf.
  Value split(const Scalars& s, Value node) const {
    if (!together_) return e_.extract(s.as(real_), splits_, {node});
    const Value bits = e_.extract(s.as(kI32), words_, {arith::AddIOp::create(s.b, s.loc, node, index(s, 1))});
    return arith::BitcastOp::create(s.b, s.loc, s.b.getF32Type(), bits);
  }

  static Value index(const Scalars& s, int64_t value) { return arith::ConstantIndexOp::create(s.b, s.loc, value); }
  static Value cast(const Scalars& s, Value value) {
    return arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), value);
  }

 private:
  Emitter& e_;
  Value samples_, words_, splits_;
  Tensor roots_;
  v1::DataType real_, word_;
  int64_t column_bits_, stride_;
  bool together_;
};

/// Returns the nodes of all rows before the last `kSteps` steps: rows x trees, or only the roots if there are no
/// earlier steps.
Tensor firstSteps(Emitter& e, const Walk& walk, int64_t rows, int64_t& depth) {
  Tensor state = walk.roots();
  const int64_t trees = state.shape[0];
  const llvm::SmallVector<IteratorType> loops(2, IteratorType::parallel);
  while (depth > kSteps) {
    // The first pass reads the roots, which all rows share; later passes read the previous state.
    const AffineMap from = state.rank() == 1 ? mapOf(e, 2, {1}) : mapOf(e, 2, {0, 1});
    state = e.generic(kI32, {rows, trees}, {{state, from}}, mapOf(e, 2, {0, 1}), loops, nullptr,
                      [&](const Scalars& s, ValueRange v) -> Value {
                        llvm::SmallVector<Value> nodes = {Walk::cast(s, v[0])};
                        walk.steps(s, mlir::linalg::IndexOp::create(s.b, s.loc, 0), kSteps, nodes);
                        return arith::IndexCastOp::create(s.b, s.loc, s.b.getI32Type(), nodes[0]);
                      });
    depth -= kSteps;
  }
  return state;
}

Value combined(const Scalars& s, Aggregate aggregate, Value x, Value y) {
  if (aggregate == Aggregate::kMin) return s.min(x, y);
  return aggregate == Aggregate::kMax ? s.max(x, y) : s.add(x, y);
}

/// Computes the scores of one target: `init` combined with the results that the rows reach. The number of trees must be
/// a multiple of `together`.
Tensor scoreOne(Emitter& e, const Walk& walk, const Tensor& init, int64_t depth, int64_t together,
                Aggregate aggregate) {
  const int64_t rows = init.shape[0];
  const Tensor state = firstSteps(e, walk, rows, depth);
  const bool shared = state.rank() == 1;  // all rows start at the roots
  const int64_t groups = state.shape.back() / together;
  const Value nodes_before = e.value(state);
  const Tensor counter = Emitter::wrap(e.empty(kI32, {groups}), kI32);  // gives the loop over groups its extent
  const IteratorType loops[] = {IteratorType::parallel, IteratorType::reduction};
  return e.generic(init.dtype, {rows}, {{counter, mapOf(e, 2, {1})}}, mapOf(e, 2, {0}), loops, &init,
                   [&](const Scalars& s, ValueRange v) {
                     const Scalars real = s.as(init.dtype);
                     const Value row = mlir::linalg::IndexOp::create(s.b, s.loc, 0);
                     // A group of walks starts together, each in its tree.
                     const Value group =
                         arith::MulIOp::create(s.b, s.loc, mlir::linalg::IndexOp::create(s.b, s.loc, 1).getResult(),
                                               Walk::index(s, together));
                     llvm::SmallVector<Value> nodes;
                     for (int64_t i = 0; i < together; ++i) {
                       const Value tree = arith::AddIOp::create(s.b, s.loc, group, Walk::index(s, i));
                       llvm::SmallVector<Value> place = {tree};
                       if (!shared) place.insert(place.begin(), row);
                       nodes.push_back(Walk::cast(s, e.extract(s, nodes_before, place)));
                     }
                     walk.steps(s, row, depth, nodes);
                     // A finished walk stands at a leaf, whose split field is the result.
                     for (Value& node : nodes) node = walk.split(s, node);
                     // Combines pairwise: a tree of additions has a shorter chain of dependences than a sum from left
                     // to right.
                     for (size_t count = nodes.size(); count > 1; count /= 2) {
                       for (size_t i = 0; i < count / 2; ++i) {
                         nodes[i] = combined(real, aggregate, nodes[2 * i], nodes[2 * i + 1]);
                       }
                     }
                     return combined(real, aggregate, v[1], nodes[0]);
                   });
}

/// Computes scores from the numbers of the leaves that the rows reach.
Tensor scoreMany(Emitter& e, const Walk& walk, int64_t rows, int64_t depth, const std::vector<double>& weights,
                 int64_t targets, double neutral, Aggregate aggregate, v1::DataType dtype) {
  const Tensor state = firstSteps(e, walk, rows, depth);
  const int64_t trees = state.shape.back();
  const llvm::SmallVector<IteratorType> parallel(2, IteratorType::parallel);
  const AffineMap from = state.rank() == 1 ? mapOf(e, 2, {1}) : mapOf(e, 2, {0, 1});
  // First finds the number of the leaf for every row and tree, then adds up the leaves' weights per target.
  const Tensor leaves =
      e.generic(kI32, {rows, trees}, {{state, from}}, mapOf(e, 2, {0, 1}), parallel, nullptr,
                [&](const Scalars& s, ValueRange v) -> Value {
                  llvm::SmallVector<Value> nodes = {Walk::cast(s, v[0])};
                  walk.steps(s, mlir::linalg::IndexOp::create(s.b, s.loc, 0), depth, nodes);
                  return arith::FPToSIOp::create(s.b, s.loc, s.b.getI32Type(), walk.split(s, nodes[0]));
                });
  const auto count = static_cast<int64_t>(weights.size()) / targets;
  const Value table = e.value(Emitter::wrap(realConstant(dtype, {count, targets}, weights)));
  const Tensor init = e.filled(e.scalars(dtype).constant(neutral), dtype, {rows, targets});
  const IteratorType loops[] = {IteratorType::parallel, IteratorType::parallel, IteratorType::reduction};
  return e.generic(dtype, {rows, targets}, {{leaves, mapOf(e, 3, {0, 2})}}, mapOf(e, 3, {0, 1}), loops, &init,
                   [&](const Scalars& s, ValueRange v) {
                     const Value target = mlir::linalg::IndexOp::create(s.b, s.loc, 1);
                     const Value weight = e.extract(s.as(dtype), table, {Walk::cast(s, v[0]), target});
                     return combined(s.as(dtype), aggregate, v[1], weight);
                   });
}

/// Returns the roots by tree depth, in blocks whose tables stay in a near cache while all rows pass.
std::vector<std::vector<TreePlace>> blocksOf(const TreeEnsemble& ensemble, const TreeTable& table, bool many_rows) {
  std::vector<size_t> order(ensemble.roots.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Trees of similar depth share a block, because all walks of a block take as many steps as its deepest tree.
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::pair(table.depths[a], a) < std::pair(table.depths[b], b); });
  const auto nodes = static_cast<int64_t>(table.keys.size());
  const size_t blocks = many_rows ? std::clamp<size_t>(nodes / kBlockNodes, 1, kMaxBlocks) : 1;
  // All blocks have as many trees, up to rounding.
  const size_t most = (order.size() + blocks - 1) / blocks;
  std::vector<std::vector<TreePlace>> result;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i % most == 0) result.emplace_back();
    result.back().push_back(ensemble.roots[order[i]]);
  }
  return result;
}

/// Returns the only target for which each tree has weights, as in boosted trees of several classes; nothing if a tree
/// has several. Every branch has one parent.
std::optional<std::vector<int64_t>> onlyTargets(const TreeEnsemble& ensemble) {
  std::vector<int64_t> result;
  std::vector<TreePlace> stack;
  for (const TreePlace& root : ensemble.roots) {
    int64_t target = -1;
    stack.push_back(root);
    while (!stack.empty()) {
      const TreePlace place = stack.back();
      stack.pop_back();
      if (!place.leaf) {
        const TreeBranch& branch = ensemble.branches[place.index];
        stack.insert(stack.end(), {branch.when_true, branch.when_false});
        continue;
      }
      for (const LeafWeight& each : ensemble.leaves[place.index]) {
        if (target >= 0 && each.target != target) return std::nullopt;
        target = each.target;
      }
    }
    result.push_back(std::max<int64_t>(target, 0));
  }
  return result;
}

/// How the weights of leaves combine.
struct Combination {
  Aggregate aggregate;
  double neutral;  ///< score without any weight
};

/// Returns the scores of one target (rows x 1); `weights` has one for each leaf.
absl::StatusOr<Tensor> scoreTarget(Emitter& e, const Samples& samples, TreeEnsemble ensemble,
                                   std::vector<double> weights, Combination how) {
  const int64_t rows = samples.rows.shape[0];
  const v1::DataType dtype = samples.rows.dtype;
  const bool single = dtype == v1::DATA_TYPE_F32;
  // The first table only measures depths and sizes; every block then gets its own.
  TESSERA_ASSIGN_OR_RETURN(const TreeTable all, tabulateTrees(ensemble, single));
  const auto blocks = blocksOf(ensemble, all, rows >= kManyRows);
  // Neutral trees fill up the last group of interleaved walks.
  ensemble.leaves.emplace_back();
  weights.push_back(how.neutral);
  Tensor score = e.filled(e.scalars(dtype).constant(how.neutral), dtype, {rows});
  for (const std::vector<TreePlace>& roots : blocks) {
    ensemble.roots = roots;
    // A group interleaves several walks, so the number of trees is rounded up to whole groups.
    const int64_t together = walksTogether(all.depth);
    ensemble.roots.resize(roundUp(static_cast<int64_t>(roots.size()), together),
                          {true, static_cast<int64_t>(ensemble.leaves.size()) - 1});
    TESSERA_ASSIGN_OR_RETURN(const TreeTable table, tabulateTrees(ensemble, single));
    score = scoreOne(e, Walk(e, table, samples, weights), score, table.depth, together, how.aggregate);
  }
  return e.reshape(score, {rows, 1});
}

}  // namespace

absl::StatusOr<Tensor> scoreTrees(Emitter& e, const Tensor& x, const TreeEnsemble& ensemble, int64_t targets,
                                  Aggregate aggregate) {
  const int64_t rows = x.shape[0];
  const bool single = x.dtype == v1::DATA_TYPE_F32;
  const bool extreme = aggregate == Aggregate::kMin || aggregate == Aggregate::kMax;
  const double neutral = !extreme ? 0 : aggregate == Aggregate::kMin ? kInfinity : -kInfinity;
  std::vector<double> weights(ensemble.leaves.size() * targets, neutral);
  for (size_t leaf = 0; leaf < ensemble.leaves.size(); ++leaf) {
    for (const LeafWeight& each : ensemble.leaves[leaf]) {
      double& weight = weights[leaf * targets + each.target];
      weight = !extreme                       ? weight + each.weight
               : aggregate == Aggregate::kMin ? std::min(weight, each.weight)
                                              : std::max(weight, each.weight);
    }
  }
  // A walk compares the split field of leaves as well, so it must not be NaN.
  if (std::any_of(weights.begin(), weights.end(), [](double weight) { return std::isnan(weight); })) {
    return absl::InvalidArgumentError("a weight of a leaf is not a number");
  }
  if (targets > 1 && ensemble.leaves.size() > kMaxLeaves) {
    return absl::InvalidArgumentError("the trees have too many leaves for several targets");
  }
  TESSERA_ASSIGN_OR_RETURN(TreeTable table, tabulateTrees(ensemble, single));
  // Looks whether any branch needs the copy of the samples without NaN; keys of leaves do not matter.
  bool missing_first = false;
  for (size_t i = 0; i < table.keys.size(); ++i) {
    missing_first |= table.children[i] != static_cast<int64_t>(i) && table.keys[i] % 2 == 1;
  }
  const Samples samples = samplesOf(e, x, missing_first);
  Tensor scores;
  // If every tree has one target, each target is scored with its own trees, and scores need no table of weights.
  if (const auto only = targets <= kMaxParts ? onlyTargets(ensemble) : std::nullopt; only) {
    std::vector<Tensor> parts;
    for (int64_t target = 0; target < targets; ++target) {
      std::vector<double> of_target;
      for (size_t leaf = 0; leaf < ensemble.leaves.size(); ++leaf) {
        of_target.push_back(weights[leaf * targets + target]);
      }
      TreeEnsemble trees = ensemble;
      trees.roots.clear();
      for (size_t i = 0; i < only->size(); ++i) {
        if ((*only)[i] == target) trees.roots.push_back(ensemble.roots[i]);
      }
      TESSERA_ASSIGN_OR_RETURN(Tensor part, scoreTarget(e, samples, std::move(trees), of_target, {aggregate, neutral}));
      parts.push_back(std::move(part));
    }
    scores = parts.size() == 1 ? parts[0] : e.concat(parts, 1);
  } else {
    std::vector<double> numbers(ensemble.leaves.size());
    std::iota(numbers.begin(), numbers.end(), 0.0);
    scores = scoreMany(e, Walk(e, table, samples, numbers), rows, table.depth, weights, targets, neutral, aggregate,
                       x.dtype);
  }
  // Averages divide; minima and maxima give 0 where no tree has a weight.
  if (aggregate == Aggregate::kSum) return scores;
  return e.elementwise(x.dtype, {scores}, [&](const Scalars& s, ValueRange v) {
    if (!extreme) return s.div(v[0], s.constant(static_cast<double>(ensemble.roots.size())));
    return s.select(s.compare(Relation::kEqual, v[0], s.constant(neutral)), s.constant(0), v[0]);
  });
}

}  // namespace tessera::compiler
