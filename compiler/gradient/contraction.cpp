#include "compiler/gradient/contraction.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/make_node.h"
#include "compiler/import/expression/print.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Kind;
using expression::Loop;
using expression::Node;
using expression::NodePtr;

bool isComparison(const Node& node) {
  return node.kind == Kind::kBinary &&
         (node.name == "<" || node.name == "<=" || node.name == ">" || node.name == ">=" || node.name == "==");
}

bool mentions(const Node& node, const std::string& variable) {
  return (node.kind == Kind::kName && node.name == variable) ||
         std::ranges::any_of(node.children, [&](const NodePtr& child) { return mentions(*child, variable); });
}

class Maker {
 public:
  Maker(const ReadGroup& group, const std::vector<Loop>& loops, const StatementWriter& writer)
      : group_(group), loops_(loops), writer_(writer), statement_(std::set<std::string>{}) {
    std::set<std::string> taken;
    for (const auto& [name, value] : writer.constants()) {
      taken.insert(name);
      names_[name] = IndexSum{.terms = {}, .constant = value};
    }
    result_.space = IndexSpace(std::move(taken));
    inside_.names = names_;
    for (const Loop& loop : loops) inside_.names[loop.variable] = statement_.addLoop(loop.variable, loop.extent);
  }

  absl::StatusOr<Contraction> run() {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<IndexEquation> equations, equationsOfRead());
    // All terms of a group have the same index conditions, so those of the first bound the iterations.
    std::vector<IndexBound> bounds;
    std::set<std::string> bounding;
    for (const NodePtr& condition : group_.terms[0]->conditions)
      if (auto bound = boundOf(*condition)) {
        bounds.push_back(*std::move(bound));
        bounding.insert(expression::print(*condition));
      }
    TESSERA_ASSIGN_OR_RETURN(Preimage preimage, preimageOf(statement_, equations, std::move(bounds), result_.space));
    result_.free_loops = preimage.free_loops;
    result_.guards = preimage.guards;
    result_.empty = preimage.empty;
    outside_.names = names_;
    outside_.keep_remainders = true;
    for (size_t i = 0; i < loops_.size(); ++i) outside_.names[loops_[i].variable] = preimage.atoms[i];
    for (const Adjoint* term : group_.terms) TESSERA_RETURN_IF_ERROR(translate(*term, bounding));
    TESSERA_RETURN_IF_ERROR(result_.space.status());
    TESSERA_RETURN_IF_ERROR(statement_.status());
    return std::move(result_);
  }

 private:
  /// One equation for each subscript; the result's loops are named like the statement's where they are the same.
  absl::StatusOr<std::vector<IndexEquation>> equationsOfRead() {
    const std::vector<int64_t>& shape = writer_.shapes().at(group_.read->name);
    std::vector<IndexEquation> equations;
    std::set<std::string> used;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Node& subscript = *group_.read->children[d];
      TESSERA_ASSIGN_OR_RETURN(IndexSum sum, statement_.read(subscript, inside_));
      std::string name = absl::StrCat("z", d);
      if (subscript.kind == Kind::kName && !writer_.constants().contains(subscript.name)) name = subscript.name;
      if (!used.insert(name).second) name = absl::StrCat("z", d);
      IndexSum loop = result_.space.addLoop(name, shape[d]);
      result_.results.push_back(loop);
      equations.push_back({std::move(sum), std::move(loop)});
    }
    return equations;
  }

  /// A comparison of index expressions as a bound. Nothing for other conditions, and for inequalities of quotients that
  /// the read does not have: they would only add unknowns.
  std::optional<IndexBound> boundOf(const Node& condition) {
    if (!isComparison(condition) || expression::readsTensor(condition)) return std::nullopt;
    const IndexSpace before = statement_;
    auto bound = boundOf(condition, statement_, inside_);
    const bool grew = statement_.atoms().size() > before.atoms().size();
    if (bound && (!grew || condition.name == "==")) return bound;
    statement_ = before;
    return std::nullopt;
  }

  static std::optional<IndexBound> boundOf(const Node& comparison, IndexSpace& space, IndexSpace::Reading reading) {
    reading.as_value = true;
    const auto left = space.read(*comparison.children[0], reading);
    const auto right = left.ok() ? space.read(*comparison.children[1], reading) : left;
    if (!right.ok()) return std::nullopt;
    IndexBound bound{space.plus(*left, *right, -1)};
    const Range range = space.rangeOf(bound.sum);
    const std::string& op = comparison.name;
    bound.low = op == "==" || op == ">=" ? 0 : op == ">" ? 1 : range.low;
    bound.high = op == "==" || op == "<=" ? 0 : op == "<" ? -1 : range.high;
    return bound;
  }

  absl::Status translate(const Adjoint& term, const std::set<std::string>& bounding) {
    ContractionTerm& translated = result_.terms.emplace_back();
    translated.adjoint = term.copy();
    translated.adjoint.conditions.clear();
    for (const NodePtr& condition : term.conditions) {
      if (bounding.contains(expression::print(*condition))) continue;
      NodePtr node = expression::copyOf(*condition);
      TESSERA_RETURN_IF_ERROR(translate(node, &translated.condition_reads));
      if (!alwaysHolds(*condition)) translated.adjoint.conditions.push_back(std::move(node));
    }
    for (Factor& factor : translated.adjoint.factors)
      TESSERA_RETURN_IF_ERROR(translate(factor.node, &translated.product_reads));
    return absl::OkStatus();
  }

  /// Whether a comparison of indices that did not bound the iterations holds for all that there are.
  bool alwaysHolds(const Node& condition) {
    if (!isComparison(condition) || expression::readsTensor(condition)) return false;
    const auto bound = boundOf(condition, result_.space, outside_);
    if (!bound) return false;
    const Range range = result_.space.rangeOf(result_.space.tightened(bound->sum));
    return range.low >= bound->low && range.high <= bound->high;
  }

  /// Writes subscripts and loops in the gradient's loops. Collects accesses in `reads`, unless it is null.
  absl::Status translate(NodePtr& node, std::vector<PlainRead>* reads) {
    if (node->kind == Kind::kAccess) {
      PlainRead read{.tensor = node->name};
      for (NodePtr& child : node->children) {
        TESSERA_ASSIGN_OR_RETURN(const IndexSum sum, result_.space.read(*child, outside_));
        read.subscripts.push_back(result_.space.tightened(sum));
        child = result_.space.nodeOf(read.subscripts.back());
      }
      if (reads != nullptr) reads->push_back(std::move(read));
      return absl::OkStatus();
    }
    if (node->kind == Kind::kName) {
      if (const auto found = outside_.names.find(node->name); found != outside_.names.end())
        node = result_.space.nodeOf(found->second);
      return absl::OkStatus();
    }
    for (size_t i = 0; i < node->children.size(); ++i) {
      const bool guarded = node->kind == Kind::kCondition && i > 0;
      TESSERA_RETURN_IF_ERROR(translate(node->children[i], guarded ? nullptr : reads));
    }
    return absl::OkStatus();
  }

  const ReadGroup& group_;
  const std::vector<Loop>& loops_;
  const StatementWriter& writer_;
  std::map<std::string, IndexSum> names_;
  IndexSpace statement_;
  IndexSpace::Reading inside_, outside_;
  Contraction result_;
};

/// The condition that all reads are inside their tensors; null if the ranges of the subscripts prove it.
NodePtr insideOf(const std::vector<PlainRead>& reads, const IndexSpace& space, const StatementWriter& writer) {
  NodePtr condition;
  for (const PlainRead& read : reads)
    for (size_t d = 0; d < read.subscripts.size(); ++d)
      condition = both(std::move(condition),
                       conditionOf(space, {read.subscripts[d], 0, writer.shapes().at(read.tensor)[d] - 1}));
  return condition;
}

NodePtr where(NodePtr condition, NodePtr value) {
  if (condition == nullptr) return value;
  return expression::conditionNode(std::move(condition), std::move(value), expression::integerNode(0));
}

/// The term under its conditions. An unguarded one must state that its reads are inside.
NodePtr valueOf(const ContractionTerm& term, bool guarded, const IndexSpace& space, const StatementWriter& writer) {
  NodePtr value = term.adjoint.product(), conditions;
  for (const NodePtr& condition : term.adjoint.conditions)
    conditions = both(std::move(conditions), expression::copyOf(*condition));
  if (guarded) return where(std::move(conditions), std::move(value));
  if (conditions == nullptr) return where(insideOf(term.product_reads, space, writer), std::move(value));
  return where(insideOf(term.condition_reads, space, writer), where(std::move(conditions), std::move(value)));
}

}  // namespace

NodePtr both(NodePtr left, NodePtr right) {
  if (left == nullptr || right == nullptr) return left == nullptr ? std::move(right) : std::move(left);
  return expression::binaryNode("&&", std::move(left), std::move(right));
}

NodePtr conditionOf(const IndexSpace& space, const IndexBound& bound) {
  IndexSum sum = bound.sum;
  if (!sum.terms.empty() && std::ranges::all_of(sum.terms, [](const auto& term) { return term.second < 0; })) {
    for (auto& [atom, factor] : sum.terms) factor = -factor;
    sum.constant = -sum.constant;
    return conditionOf(space, {sum, -bound.high, -bound.low});
  }
  const auto side = [&](const char* op, int64_t value) {
    return expression::binaryNode(op, space.nodeOf(sum), expression::integerNode(value));
  };
  const Range range = space.rangeOf(sum);
  const int64_t constant = sum.constant;
  sum.constant = 0;
  if (range.low == range.high && bound.low <= range.low && range.high <= bound.high) return nullptr;
  if (bound.low == bound.high) return side("==", bound.low - constant);
  NodePtr condition;
  if (bound.low > range.low) condition = side(">=", bound.low - constant);
  if (bound.high < range.high) condition = both(std::move(condition), side("<", bound.high - constant + 1));
  return condition;
}

absl::StatusOr<Contraction> contractionOf(const ReadGroup& group, const std::vector<Loop>& loops,
                                          const StatementWriter& writer) {
  return Maker(group, loops, writer).run();
}

absl::Status writeGuarded(const Contraction& contraction, const std::string& name, StatementWriter& writer) {
  NodePtr guards;
  for (const IndexBound& guard : contraction.guards)
    guards = both(std::move(guards), conditionOf(contraction.space, guard));
  NodePtr sum;
  for (const ContractionTerm& term : contraction.terms) {
    NodePtr value = valueOf(term, guards != nullptr, contraction.space, writer);
    sum = sum == nullptr ? std::move(value) : expression::binaryNode("+", std::move(sum), std::move(value));
  }
  sum = where(std::move(guards), std::move(sum));
  std::vector<Loop> loops;
  for (const IndexSum& result : contraction.results) {
    const auto& atom = contraction.space.atom(result.terms.begin()->first);
    loops.push_back({atom.name, atom.range.high + 1, false});
  }
  bool reduces = false;
  for (const int loop : contraction.free_loops) {
    const auto& atom = contraction.space.atom(loop);
    if (mentions(*sum, atom.name)) {
      loops.push_back({atom.name, atom.range.high + 1, true});
      reduces = true;
    } else {
      // The value is the same in all iterations.
      sum = expression::binaryNode("*", std::move(sum), expression::integerNode(atom.range.high + 1));
    }
  }
  return writer
      .add(name, loops, std::move(sum), reduces ? expression::Accumulation::kSum : expression::Accumulation::kNone)
      .status();
}

}  // namespace tessera::compiler::gradient
