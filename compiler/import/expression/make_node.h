#pragma once

#include <string>
#include <vector>

#include "compiler/import/expression/syntax.h"

/// Builds expressions of syntax.h in code: for rooms that write tensor expressions.
namespace tessera::compiler::expression {

NodePtr copyOf(const Node& node);
std::vector<NodePtr> copyOf(const std::vector<NodePtr>& nodes);

NodePtr integerNode(int64_t value);
NodePtr realNode(double value);
NodePtr nameNode(const std::string& name);
NodePtr accessNode(const std::string& tensor, std::vector<NodePtr> subscripts);
NodePtr callNode(const std::string& function, NodePtr argument);
NodePtr unaryNode(const std::string& symbol, NodePtr operand);
NodePtr binaryNode(const std::string& symbol, NodePtr left, NodePtr right);
NodePtr conditionNode(NodePtr condition, NodePtr yes, NodePtr no);

/// The variables `names` as subscripts.
std::vector<NodePtr> nameNodes(const std::vector<std::string>& names);

/// Whether a tensor is read anywhere in the expression.
bool readsTensor(const Node& node);

}  // namespace tessera::compiler::expression
