#include "compiler/space/expression_analysis.h"

#include <functional>
#include <set>

#include "compiler/import/expression/bounds.h"
#include "compiler/import/expression/syntax.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::space {
namespace {

/// Tensors that an expression reads.
std::set<std::string> readBy(const expression::Node& node) {
  std::set<std::string> tensors;
  const std::function<void(const expression::Node&)> visit = [&](const expression::Node& each) {
    if (each.kind == expression::Kind::kAccess) tensors.insert(each.name);
    for (const expression::NodePtr& child : each.children) visit(*child);
  };
  visit(node);
  return tensors;
}

}  // namespace

absl::StatusOr<std::vector<StaticAnalysis::Node>> nodesOfExpression(std::string_view text) {
  TESSERA_ASSIGN_OR_RETURN(auto program, expression::parse(text));
  expression::Constants constants;
  expression::Shapes shapes;
  for (const expression::Param& param : program.params) {
    TESSERA_ASSIGN_OR_RETURN(auto value, expression::evaluate(*param.value, constants));
    constants[param.name] = value;
  }
  for (const expression::Input& input : program.inputs)
    for (const expression::NodePtr& extent : input.shape) {
      TESSERA_ASSIGN_OR_RETURN(auto value, expression::evaluate(*extent, constants));
      shapes[input.name].push_back(value);
    }
  std::vector<StaticAnalysis::Node> nodes;
  for (const expression::Statement& statement : program.statements) {
    TESSERA_ASSIGN_OR_RETURN(auto loops, expression::inferLoops(statement, shapes, constants));
    StaticAnalysis::Node& node = nodes.emplace_back();
    for (const expression::Loop& loop : loops) {
      (loop.reduction ? node.reductions : node.spatial).push_back(loop.extent);
      node.order += (node.order.empty() ? "" : " ") + loop.variable;
    }
    shapes[statement.name] = node.spatial;
    node.inputs = static_cast<int>(readBy(*statement.value).size());
    node.outputs = 1;
    for (const expression::Statement& other : program.statements)
      node.consumers += readBy(*other.value).contains(statement.name) ? 1 : 0;
  }
  return nodes;
}

}  // namespace tessera::compiler::space
