#include "compiler/gradient/adjoints.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/gradient/derivative_rules.h"
#include "compiler/import/expression/make_node.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Kind;
using expression::Node;
using expression::NodePtr;

bool isNumber(const Node& node, double value) { return node.kind == Kind::kNumber && node.number == value; }

/// Literals have the type of their neighbour.
bool isFloatOrLiteral(v1::DataType type) {
  return type == v1::DATA_TYPE_F64 || type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F16 ||
         type == v1::DATA_TYPE_BF16 || type == v1::DATA_TYPE_UNSPECIFIED;
}

/// The opposite of a condition. A comparison turns into the opposite one, which is false for NaN as well; that is why
/// this is used only where no tensor is read.
NodePtr opposite(const Node& condition) {
  static const std::map<std::string, std::string> opposites = {{"==", "!="}, {"!=", "=="}, {"<", ">="},
                                                               {">=", "<"},  {">", "<="},  {"<=", ">"}};
  if (condition.kind == Kind::kUnary && condition.name == "!") return expression::copyOf(*condition.children[0]);
  if (const auto found = opposites.find(condition.name);
      condition.kind == Kind::kBinary && found != opposites.end() && !expression::readsTensor(condition))
    return expression::binaryNode(found->second, expression::copyOf(*condition.children[0]),
                                  expression::copyOf(*condition.children[1]));
  if (condition.kind == Kind::kBinary && condition.name == "||")
    return expression::binaryNode("&&", opposite(*condition.children[0]), opposite(*condition.children[1]));
  return expression::unaryNode("!", expression::copyOf(condition));
}

/// Adds the terms of a conjunction one by one.
void require(const Node& condition, std::vector<NodePtr>& conditions) {
  if (condition.kind == Kind::kBinary && condition.name == "&&") {
    for (const NodePtr& child : condition.children) require(*child, conditions);
  } else {
    conditions.push_back(expression::copyOf(condition));
  }
}

class Descent {
 public:
  explicit Descent(const AdjointQuestion& question) : question_(question) {}

  absl::Status descend(const Node& node, Adjoint adjoint) {
    if (!dependsOn(node, question_.wanted)) return absl::OkStatus();
    switch (node.kind) {
      case Kind::kAccess:
        reads_.push_back({&node, std::move(adjoint)});
        return absl::OkStatus();
      case Kind::kUnary:
        adjoint.negative = !adjoint.negative;
        return descend(*node.children[0], std::move(adjoint));
      case Kind::kCondition: {
        Adjoint other = adjoint.copy();
        require(*node.children[0], adjoint.conditions);
        TESSERA_RETURN_IF_ERROR(descend(*node.children[1], std::move(adjoint)));
        require(*opposite(*node.children[0]), other.conditions);
        return descend(*node.children[2], std::move(other));
      }
      case Kind::kCall:
        if (const auto type = expression::typeOfName(node.name)) return cast(node, *type, std::move(adjoint));
        break;
      default:
        break;
    }
    return operands(node, adjoint);
  }

  std::vector<ReadAdjoint> reads() && { return std::move(reads_); }

 private:
  absl::Status cast(const Node& node, v1::DataType type, Adjoint adjoint) {
    if (!isFloatOrLiteral(type))
      return expression::errorAt(node.at, "a cast to an integer type has no derivative", node.name,
                                 "values of float types on the way from an input to an output");
    const Node& inner = *node.children[0];
    // The gradient of a read keeps the wider type: contributions are cast once, after their sum.
    if (inner.kind != Kind::kAccess) {
      const v1::DataType from = typeOf(inner, question_.types);
      NodePtr product = adjoint.product();
      adjoint.factors.clear();
      adjoint.negative = false;
      adjoint.factors.push_back({expression::callNode(expression::nameOfType(from), std::move(product))});
    }
    return descend(inner, std::move(adjoint));
  }

  absl::Status operands(const Node& node, const Adjoint& adjoint) {
    // The value of the whole right side is the statement's result, which need not be computed again.
    const expression::Statement& statement = question_.statement;
    const bool whole = &node == statement.value.get() && statement.accumulation == expression::Accumulation::kNone;
    const NodePtr value = whole ? expression::accessNode(statement.name, expression::nameNodes(statement.indices))
                                : expression::copyOf(node);
    for (size_t i = 0; i < node.children.size(); ++i) {
      if (!dependsOn(*node.children[i], question_.wanted)) continue;
      TESSERA_ASSIGN_OR_RETURN(NodePtr partial, partialOf(node, i, *value));
      typeLiterals(partial, typeOf(node, question_.types));
      Adjoint part = adjoint.copy();
      if (!part.multiply(std::move(partial))) continue;
      TESSERA_RETURN_IF_ERROR(descend(*node.children[i], std::move(part)));
    }
    return absl::OkStatus();
  }

  /// Literals that stand alone in a branch would take the statement's type, which differs below a cast.
  void typeLiterals(NodePtr& node, v1::DataType type) const {
    if (node->kind == Kind::kCondition && type != typeOf(*question_.statement.value, question_.types)) {
      for (size_t i = 1; i < 3; ++i)
        if (typeOf(*node->children[i], question_.types) == v1::DATA_TYPE_UNSPECIFIED &&
            node->children[i]->kind != Kind::kCondition)
          node->children[i] = expression::callNode(expression::nameOfType(type), std::move(node->children[i]));
    }
    for (NodePtr& child : node->children) typeLiterals(child, type);
  }

  const AdjointQuestion& question_;
  std::vector<ReadAdjoint> reads_;
};

}  // namespace

Adjoint Adjoint::copy() const {
  Adjoint copy;
  for (const Factor& factor : factors) copy.factors.push_back({expression::copyOf(*factor.node), factor.divides});
  copy.conditions = expression::copyOf(conditions);
  copy.negative = negative;
  return copy;
}

bool Adjoint::multiply(NodePtr partial) {
  if (partial->kind == Kind::kUnary && partial->name == "-") {
    negative = !negative;
    return multiply(std::move(partial->children[0]));
  }
  if (isNumber(*partial, 0)) return false;
  if (isNumber(*partial, 1)) return true;
  if (partial->kind == Kind::kBinary && partial->name == "/") {
    const bool one = isNumber(*partial->children[0], 1);
    if (!one) factors.push_back({std::move(partial->children[0])});
    factors.push_back({std::move(partial->children[1]), true});
    return true;
  }
  factors.push_back({std::move(partial)});
  return true;
}

NodePtr Adjoint::product() const {
  NodePtr product;
  for (const Factor& factor : factors) {
    NodePtr node = expression::copyOf(*factor.node);
    if (product == nullptr) {
      product = std::move(node);
    } else {
      product = expression::binaryNode(factor.divides ? "/" : "*", std::move(product), std::move(node));
    }
  }
  return negative ? expression::unaryNode("-", std::move(product)) : std::move(product);
}

v1::DataType typeOf(const Node& node, const Types& types) {
  if (node.kind == Kind::kAccess) return types.at(node.name);
  // Loops are i64 values; params are literals.
  if (node.kind == Kind::kName) return types.contains(node.name) ? v1::DATA_TYPE_UNSPECIFIED : v1::DATA_TYPE_I64;
  if (const auto cast = expression::typeOfName(node.name); cast && node.kind == Kind::kCall) return *cast;
  for (size_t i = node.kind == Kind::kCondition ? 1 : 0; i < node.children.size(); ++i)
    if (const v1::DataType type = typeOf(*node.children[i], types); type != v1::DATA_TYPE_UNSPECIFIED) return type;
  return v1::DATA_TYPE_UNSPECIFIED;
}

bool dependsOn(const Node& node, const std::set<std::string>& tensors) {
  if (node.kind == Kind::kAccess) return tensors.contains(node.name);
  for (size_t i = node.kind == Kind::kCondition ? 1 : 0; i < node.children.size(); ++i)
    if (dependsOn(*node.children[i], tensors)) return true;
  return false;
}

absl::StatusOr<std::vector<ReadAdjoint>> adjointsOf(const AdjointQuestion& question, const Adjoint& seed) {
  Descent descent(question);
  TESSERA_RETURN_IF_ERROR(descent.descend(*question.statement.value, seed.copy()));
  return std::move(descent).reads();
}

}  // namespace tessera::compiler::gradient
