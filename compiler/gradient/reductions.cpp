#include "compiler/gradient/reductions.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/make_node.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Accumulation;
using expression::Kind;
using expression::Loop;
using expression::Node;
using expression::NodePtr;
using expression::Statement;

NodePtr literal(int64_t value, v1::DataType type) {
  return expression::callNode(expression::nameOfType(type), expression::integerNode(value));
}

void rename(NodePtr& node, const std::map<std::string, std::string>& names) {
  if (const auto found = names.find(node->name); node->kind == Kind::kName && found != names.end())
    node = expression::nameNode(found->second);
  for (NodePtr& child : node->children) rename(child, names);
}

/// R[i, k] = product over k' of (k' == k ? 1 : value at k').
absl::StatusOr<NodePtr> otherFactors(const Statement& statement, const std::vector<Loop>& loops,
                                     StatementWriter& writer) {
  std::set<std::string> taken;
  for (const auto& [name, value] : writer.constants()) taken.insert(name);
  for (const Loop& loop : loops) taken.insert(loop.variable);
  std::map<std::string, std::string> names;
  std::vector<Loop> both;
  NodePtr same;
  for (const Loop& loop : loops) both.push_back({loop.variable, loop.extent, false});
  for (const Loop& loop : loops) {
    if (!loop.reduction) continue;
    std::string other = loop.variable + "_other";
    while (!taken.insert(other).second) other += "_";
    names[loop.variable] = other;
    both.push_back({other, loop.extent, true});
    NodePtr equal = expression::binaryNode("==", expression::nameNode(other), expression::nameNode(loop.variable));
    same = same == nullptr ? std::move(equal) : expression::binaryNode("&&", std::move(same), std::move(equal));
  }
  NodePtr value = expression::copyOf(*statement.value);
  rename(value, names);
  value = expression::conditionNode(std::move(same), literal(1, writer.types().at(statement.name)), std::move(value));
  std::vector<std::string> variables;
  for (const Loop& loop : loops) variables.push_back(loop.variable);
  TESSERA_ASSIGN_OR_RETURN(const std::string name, writer.add(writer.freshName(statement.name + "_others"), both,
                                                              std::move(value), Accumulation::kProduct));
  return expression::accessNode(name, expression::nameNodes(variables));
}

/// N[i] = the number of values that are O[i].
absl::StatusOr<NodePtr> tiesOf(const Statement& statement, const Node& hit, const std::vector<Loop>& loops,
                               StatementWriter& writer) {
  const v1::DataType type = writer.types().at(statement.name);
  NodePtr value = expression::conditionNode(expression::copyOf(hit), literal(1, type), literal(0, type));
  TESSERA_ASSIGN_OR_RETURN(const std::string name, writer.add(writer.freshName(statement.name + "_ties"), loops,
                                                              std::move(value), Accumulation::kSum));
  return expression::accessNode(name, expression::nameNodes(statement.indices));
}

}  // namespace

absl::StatusOr<Adjoint> seedOf(const Statement& statement, const std::vector<Loop>& loops, const std::string& gradient,
                               StatementWriter& writer) {
  Adjoint seed;
  seed.factors.push_back({expression::accessNode(gradient, expression::nameNodes(statement.indices))});
  const bool reduces = loops.size() > statement.indices.size();
  if (!reduces || statement.accumulation == Accumulation::kNone || statement.accumulation == Accumulation::kSum)
    return seed;
  if (statement.accumulation == Accumulation::kProduct) {
    TESSERA_ASSIGN_OR_RETURN(NodePtr others, otherFactors(statement, loops, writer));
    seed.factors.push_back({std::move(others)});
    return seed;
  }
  NodePtr hit =
      expression::binaryNode("==", expression::copyOf(*statement.value),
                             expression::accessNode(statement.name, expression::nameNodes(statement.indices)));
  TESSERA_ASSIGN_OR_RETURN(NodePtr ties, tiesOf(statement, *hit, loops, writer));
  seed.factors.push_back({std::move(ties), true});
  seed.conditions.push_back(std::move(hit));
  return seed;
}

}  // namespace tessera::compiler::gradient
