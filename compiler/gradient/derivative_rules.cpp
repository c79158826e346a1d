#include "compiler/gradient/derivative_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/make_node.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Kind;
using expression::Node;
using expression::NodePtr;

// Where two operands of max or min are equal, each gets half: the mean of the derivatives from both sides. floor and
// ceil are constant almost everywhere. Tensor expressions have no functions expm1 and following: these rows are for
// bodies of imported operators (compiler/training).
constexpr DerivativeRule kRules[] = {
    {"+", "1", "1"},
    {"-", "1", "-1"},
    {"*", "b", "a"},
    {"/", "1 / b", "-(y / b)"},
    {"%", "1", "-floor(a / b)"},
    {"exp", "y"},
    {"log", "1 / a"},
    {"sqrt", "0.5 / y"},
    {"rsqrt", "-(0.5 * y / a)"},
    {"tanh", "1 - y * y"},
    {"erf", "1.1283791670955126 * exp(-(a * a))"},  // 2 / sqrt(pi)
    {"sin", "cos(a)"},
    {"cos", "-sin(a)"},
    {"abs", "a > 0 ? 1 : a < 0 ? -1 : 0"},
    {"floor", "0"},
    {"ceil", "0"},
    {"max", "a > b ? 1 : a == b ? 0.5 : 0", "b > a ? 1 : a == b ? 0.5 : 0"},
    {"min", "a < b ? 1 : a == b ? 0.5 : 0", "b < a ? 1 : a == b ? 0.5 : 0"},
    {"exp2", "y * 0.69314718055994531"},  // log(2)
    {"expm1", "y + 1"},
    {"log1p", "1 / (1 + a)"},
    {"log2", "1.4426950408889634 / a"},  // 1 / log(2)
    {"tan", "1 + y * y"},
    {"atan", "1 / (1 + a * a)"},
    {"asin", "1 / sqrt(1 - a * a)"},
    {"acos", "-(1 / sqrt(1 - a * a))"},
    {"sinh", "0.5 * (exp(a) + exp(-a))"},
    {"cosh", "0.5 * (exp(a) - exp(-a))"},
    {"asinh", "1 / sqrt(a * a + 1)"},
    {"acosh", "1 / sqrt(a * a - 1)"},
    {"atanh", "1 / (1 - a * a)"},
    {"pow", "b == 0 ? 0 : b * pow(a, b - 1)", "a == 0 ? 0 : y * log(a)"},
};

/// Puts expressions in place of a, b and y.
void substitute(NodePtr& node, const Node& call, const Node& value) {
  if (node->kind == Kind::kName) {
    const size_t operand = node->name == "b" ? 1 : 0;
    node = expression::copyOf(node->name == "y" ? value : *call.children[operand]);
    return;
  }
  for (NodePtr& child : node->children) substitute(child, call, value);
}

bool isNumber(const NodePtr& node) { return node->kind == Kind::kNumber; }

/// Decides comparisons of numbers and adds numbers: pow(a, 2) becomes 2 * pow(a, 1) without a condition.
void fold(NodePtr& node) {
  for (NodePtr& child : node->children) fold(child);
  if (node->kind == Kind::kCondition) {
    const Node& test = *node->children[0];
    if (test.name != "==" || !isNumber(test.children[0]) || !isNumber(test.children[1])) return;
    NodePtr taken = std::move(node->children[test.children[0]->number == test.children[1]->number ? 1 : 2]);
    node = std::move(taken);
    return;
  }
  if (node->kind != Kind::kBinary || node->name != "-" || !isNumber(node->children[0]) || !isNumber(node->children[1]))
    return;
  const Node &left = *node->children[0], &right = *node->children[1];
  node = expression::realNode(left.number - right.number);
}

}  // namespace

std::span<const DerivativeRule> derivativeRules() { return kRules; }

absl::StatusOr<NodePtr> partialOf(const Node& call, size_t position, const Node& value) {
  const auto* rule = std::ranges::find(kRules, std::string_view(call.name), &DerivativeRule::function);
  if (rule == std::end(kRules))
    return expression::errorAt(call.at, "no derivative of this is known", call.name,
                               "+ - * / %, exp log sqrt rsqrt tanh erf sin cos abs floor ceil, max min pow");
  const std::string_view text = position == 0 ? rule->of_first : rule->of_second;
  TESSERA_ASSIGN_OR_RETURN(expression::Program program,
                           expression::parse(absl::StrCat("D[] = ", std::string(text), ";")));
  NodePtr partial = std::move(program.statements[0].value);
  substitute(partial, call, value);
  if (call.name == "pow") fold(partial);
  return partial;
}

}  // namespace tessera::compiler::gradient
