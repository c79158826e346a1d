#include "compiler/graph/layout/layout_graph.h"

#include <algorithm>
#include <map>

#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "compiler/graph/analysis/tensor_type.h"
#include "compiler/graph/constants/fold_constants.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::linalg::GenericOp;

/// Most block sizes considered in one graph besides the two plain layouts, and most layouts in which a value is held.
constexpr size_t kMaxBlocks = 5;
constexpr int kMaxHeld = 3;

/// Whether an elementwise operation without a product before it computes the value: it can write any order for free.
bool writesAnywhere(Value value) {
  mlir::Operation* op = value.getDefiningOp();
  if (!op || !value.hasOneUse() || kindOf(op) != OpKind::kElementwise || op->getNumResults() != 1) return false;
  return llvm::none_of(op->getOperands(), [](Value operand) {
    mlir::Operation* producer = operand.getDefiningOp();
    return producer && kindOf(producer) != OpKind::kCloned && kindOf(producer) != OpKind::kElementwise;
  });
}

/// Whether a product's result feeds one elementwise operation. A transform in between would separate the two and cost
/// another pass over memory.
bool feedsEpilogue(Value value) {
  mlir::Operation* op = value.getDefiningOp();
  if (!op || !value.hasOneUse()) return false;
  const OpKind kind = kindOf(op);
  return (kind == OpKind::kHeavy || kind == OpKind::kReduction) && kindOf(*value.user_begin()) == OpKind::kElementwise;
}

}  // namespace

LayoutGraph::LayoutGraph(mlir::func::FuncOp main, const LayoutCost& prices)
    : main_(main), prices_(prices), roles_(main) {
  collectBlocks();
  for (mlir::Operation& op : main.getBody().front().without_terminator()) addNode(&op);
  addEdges();
  countBefore();
}

/// Collects the most frequent block sizes that fill the vectors of convolutions.
void LayoutGraph::collectBlocks() {
  std::map<int64_t, int> votes;
  const int64_t lanes = prices_.lanes();
  auto suggest = [&](int64_t channels) {
    if (prices_.cube() > 0) {
      ++votes[prices_.cube()];
      return;
    }
    if (lanes < 4) return;
    if (channels >= lanes / 2) ++votes[lanes];
    if (channels % lanes == 0) return;
    // Blocks of several vectors whose last one is partial: 40 channels as 16 + 16 + 8 waste less than five half
    // vectors.
    int64_t widest = 0;
    for (int64_t divisor = lanes + 1; divisor <= 4 * lanes; ++divisor) {
      const bool fuller = widest == 0 || prices_.vectorShare(divisor) > prices_.vectorShare(widest);
      if (channels % divisor == 0 && fuller) widest = divisor;
    }
    if (widest > 0 && prices_.vectorShare(widest) > 0.5) ++votes[widest];
    if (lanes >= 8 && channels % (lanes / 2) == 0) {
      ++votes[lanes / 2];
      return;
    }
    for (int64_t divisor = std::min(channels, 2 * lanes); divisor >= 4; --divisor) {
      if (channels % divisor != 0) continue;
      ++votes[divisor];
      return;
    }
  };
  for (GenericOp op : main_.getBody().front().getOps<GenericOp>()) {
    if (auto convolution = asConvolution(op)) {
      const int64_t inputs =
          channelCount(tensorTypeOrNull(op.getDpsInputs()[0]), convolution->input) / convolution->groups;
      suggest(inputs);
      // A block of neighbours that fills a tile.
      if (const auto tiles = tilesFor(op, prices_); tiles && 2 * inputs > tiles->depth) ++votes[tiles->depth];
      // A few channels, such as those of an image, are filled up to a whole group of an instruction.
      const int64_t group = inputsAtOnce(op, prices_);
      if (group > 1 && inputs > 1 && inputs < lanes && prices_.cube() == 0)
        ++votes[(inputs + group - 1) / group * group];
      suggest(channelCount(tensorTypeOrNull(op.getResult(0)), convolution->output) / convolution->groups);
    } else if (auto channels = op->getNumResults() == 1 ? roles_.of(op->getResult(0)) : std::nullopt;
               channels && isChannelwiseWindow(op)) {
      suggest(channelCount(tensorTypeOrNull(op->getResult(0)), *channels));
    }
  }
  std::vector<std::pair<int, int64_t>> sorted;
  for (auto [block, count] : votes) sorted.emplace_back(-count, block);
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() > kMaxBlocks) sorted.resize(kMaxBlocks);
  for (auto [count, block] : sorted) universe_.push_back({block});
  universe_.push_back(kChannelsLast);
  universe_.push_back(kChannelsFirst);
}

int LayoutGraph::addVariable(std::vector<ChannelLayout> layouts, std::vector<double> costs) {
  layouts_.push_back(std::move(layouts));
  return problem_.addVariable(std::move(costs));
}

int LayoutGraph::fixedVariable(ChannelLayout layout) {
  auto [it, inserted] = fixed_.try_emplace(layout.block, 0);
  if (inserted) it->second = addVariable({layout}, {0});
  return it->second;
}

double LayoutGraph::transformPrice(Value value, ChannelLayout from, ChannelLayout to) const {
  auto type = tensorTypeOrNull(value);
  const Channels channels = *roles_.of(value);
  const int passes = conversionPasses(type, channels, from, to);
  if (passes == 0) return 0;
  // The producer can do a single pass itself.
  if (passes == 1 && to == kChannelsFirst && writesAnywhere(value)) return 0;
  const double pass = prices_.pass(tensorBytes(type), true);
  return (passes + (feedsEpilogue(value) ? 1 : 0)) * pass;
}

/// Adds the prices of transforms between the producer of a value and its readers.
void LayoutGraph::connect(Value value, int producer, const std::vector<int>& readers) {
  // With a single reader the edge has the price of the transform.
  if (readers.size() == 1) {
    LabellingProblem::Edge edge{producer, readers[0], {}};
    for (ChannelLayout from : layouts_[producer]) {
      for (ChannelLayout to : layouts_[readers[0]]) edge.costs.push_back(transformPrice(value, from, to));
    }
    problem_.edges.push_back(std::move(edge));
    return;
  }
  // Adds a variable for the set of layouts in which the value is held.
  unsigned wanted = 0;
  for (int reader : readers) {
    for (ChannelLayout layout : layouts_[reader]) wanted |= 1U << (llvm::find(universe_, layout) - universe_.begin());
  }
  // All sets of at most kMaxHeld layouts that some reader may want.
  std::vector<unsigned> sets;
  for (unsigned set = 1; set < 1U << universe_.size(); ++set) {
    if ((set & ~wanted) == 0 && llvm::popcount(set) <= kMaxHeld) sets.push_back(set);
  }
  const int held = addVariable({}, std::vector<double>(sets.size(), 0));
  // The producer pays for one transform into each other layout of the set.
  LabellingProblem::Edge write{producer, held, {}};
  for (ChannelLayout from : layouts_[producer]) {
    for (unsigned set : sets) {
      double cost = 0;
      for (size_t bit = 0; bit < universe_.size(); ++bit) {
        if (set >> bit & 1) cost += transformPrice(value, from, universe_[bit]);
      }
      write.costs.push_back(cost);
    }
  }
  problem_.edges.push_back(std::move(write));
  // A reader needs its layout to be in the set.
  for (int reader : readers) {
    LabellingProblem::Edge read{held, reader, {}};
    for (unsigned set : sets) {
      for (ChannelLayout to : layouts_[reader]) {
        const bool has = set >> (llvm::find(universe_, to) - universe_.begin()) & 1;
        read.costs.push_back(has ? 0 : kForbidden);
      }
    }
    problem_.edges.push_back(std::move(read));
  }
  sets_.emplace_back(held, std::move(sets));
}

/// Adds an edge for each reader of each value, from the producer's variable to the reader's.
void LayoutGraph::addEdges() {
  llvm::DenseMap<Value, int> producer;
  for (const LayoutNode& node : nodes_) {
    for (size_t form = 0; form < node.forms.size(); ++form) {
      Value value = node.value(form);
      if (node.forms[form].kind == OperandForm::kActivation && value.getDefiningOp() == node.op) {
        producer[value] = node.variables[form];
      }
    }
  }
  // Collects readers by root, through views and transposes.
  llvm::MapVector<Value, std::vector<LayoutEdge>> readers;
  auto addReaders = [&](Value value) {
    auto channels = roles_.of(value);
    if (!channels) return;
    Value root = roles_.root(value);
    // A value that nothing rewrites is read in its plain layout.
    for (mlir::OpOperand& use : value.getUses()) {
      mlir::Operation* owner = use.getOwner();
      if (roles_.isAlias(owner)) continue;
      auto node = node_of_.find(owner);
      int variable = -1;
      if (node != node_of_.end()) {
        const LayoutNode& reading = nodes_[node->second];
        if (use.getOperandNumber() < reading.variables.size()) variable = reading.variables[use.getOperandNumber()];
      }
      // An operation that is no node keeps the plain layout.
      if (variable < 0) variable = fixedVariable(plainLayout(tensorTypeOrNull(value), *channels));
      readers[root].push_back({root, 0, variable, owner});
    }
  };
  for (mlir::BlockArgument argument : main_.getArguments()) addReaders(argument);
  for (mlir::Operation& op : main_.getBody().front()) {
    for (Value result : op.getResults()) addReaders(result);
  }
  for (auto& [value, edges] : readers) {
    auto it = producer.find(value);
    const int from =
        it != producer.end() ? it->second : fixedVariable(plainLayout(tensorTypeOrNull(value), *roles_.of(value)));
    std::vector<int> variables;
    for (LayoutEdge& edge : edges) {
      edge.producer = from;
      edges_.push_back(edge);
      if (edge.reader != from && !llvm::is_contained(variables, edge.reader)) variables.push_back(edge.reader);
    }
    if (!variables.empty()) connect(value, from, variables);
  }
}

/// Counts the transforms without a common assignment: each anchor in its own best layout, plus the model's transposes.
void LayoutGraph::countBefore() {
  for (const LayoutNode& node : nodes_) {
    if (!node.anchor) continue;
    for (size_t form = 0; form < node.forms.size(); ++form) {
      if (node.variables[form] < 0) continue;
      const std::vector<double>& costs = problem_.costs[node.variables[form]];
      const ChannelLayout best =
          layouts_[node.variables[form]][std::min_element(costs.begin(), costs.end()) - costs.begin()];
      Value value = node.value(form);
      auto type = tensorTypeOrNull(value);
      transforms_before_ += !samePlaces(type, *roles_.of(value), best, plainLayout(type, *roles_.of(value)));
    }
  }
  main_.walk([&](GenericOp op) {
    transforms_before_ += op->getNumResults() == 1 && roles_.of(op->getResult(0)) && !permutationOf(op).empty();
  });
}

std::vector<std::vector<int>> LayoutGraph::starts() const {
  std::vector<std::vector<int>> result;
  for (ChannelLayout layout : universe_) {
    std::vector<int> labels(problem_.costs.size(), 0);
    for (size_t v = 0; v < labels.size(); ++v) {
      if (layouts_[v].empty()) continue;
      const auto found = llvm::find(layouts_[v], layout);
      const std::vector<double>& costs = problem_.costs[v];
      labels[v] =
          static_cast<int>(found != layouts_[v].end() ? found - layouts_[v].begin()
                                                      : std::min_element(costs.begin(), costs.end()) - costs.begin());
    }
    // Restricts sets to the layouts that remain possible for readers.
    for (const auto& [variable, sets] : sets_) {
      unsigned wanted = 0;
      for (const LabellingProblem::Edge& edge : problem_.edges) {
        if (edge.a != variable) continue;
        wanted |= 1U << (llvm::find(universe_, layouts_[edge.b][labels[edge.b]]) - universe_.begin());
      }
      const auto found = llvm::find(sets, wanted);
      if (found != sets.end()) labels[variable] = static_cast<int>(found - sets.begin());
    }
    result.push_back(std::move(labels));
  }
  return result;
}

}  // namespace tessera::compiler
