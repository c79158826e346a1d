#include "compiler/import/expression/make_node.h"

#include <algorithm>
#include <utility>

namespace tessera::compiler::expression {
namespace {

template <typename... Children>
NodePtr make(Kind kind, const std::string& name, Children... children) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->name = name;
  (node->children.push_back(std::move(children)), ...);
  return node;
}

NodePtr numberNode(double value, bool real) {
  NodePtr node = make(Kind::kNumber, "");
  node->number = value;
  node->real = real;
  return node;
}

}  // namespace

NodePtr copyOf(const Node& node) {
  auto copy = std::make_unique<Node>();
  copy->kind = node.kind;
  copy->at = node.at;
  copy->name = node.name;
  copy->number = node.number;
  copy->real = node.real;
  copy->children = copyOf(node.children);
  return copy;
}

std::vector<NodePtr> copyOf(const std::vector<NodePtr>& nodes) {
  std::vector<NodePtr> copies;
  copies.reserve(nodes.size());
  for (const NodePtr& node : nodes) copies.push_back(copyOf(*node));
  return copies;
}

NodePtr integerNode(int64_t value) {
  // The syntax has no negative numbers, only a sign before one.
  if (value < 0) return make(Kind::kUnary, "-", integerNode(-value));
  return numberNode(static_cast<double>(value), false);
}

NodePtr realNode(double value) {
  if (value < 0) return make(Kind::kUnary, "-", realNode(-value));
  return numberNode(value, true);
}

NodePtr nameNode(const std::string& name) { return make(Kind::kName, name); }

NodePtr accessNode(const std::string& tensor, std::vector<NodePtr> subscripts) {
  NodePtr node = make(Kind::kAccess, tensor);
  node->children = std::move(subscripts);
  return node;
}

NodePtr callNode(const std::string& function, NodePtr argument) {
  return make(Kind::kCall, function, std::move(argument));
}

NodePtr unaryNode(const std::string& symbol, NodePtr operand) { return make(Kind::kUnary, symbol, std::move(operand)); }

NodePtr binaryNode(const std::string& symbol, NodePtr left, NodePtr right) {
  return make(Kind::kBinary, symbol, std::move(left), std::move(right));
}

NodePtr conditionNode(NodePtr condition, NodePtr yes, NodePtr no) {
  return make(Kind::kCondition, "?", std::move(condition), std::move(yes), std::move(no));
}

std::vector<NodePtr> nameNodes(const std::vector<std::string>& names) {
  std::vector<NodePtr> nodes;
  nodes.reserve(names.size());
  for (const std::string& name : names) nodes.push_back(nameNode(name));
  return nodes;
}

bool readsTensor(const Node& node) {
  return node.kind == Kind::kAccess ||
         std::ranges::any_of(node.children, [](const NodePtr& child) { return readsTensor(*child); });
}

}  // namespace tessera::compiler::expression
