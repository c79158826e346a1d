#include "compiler/import/expression/print.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tessera::compiler::expression {
namespace {

/// How tightly an operator binds, as in the parser; parentheses surround a looser operand.
constexpr int kConditionLevel = 0, kSumLevel = 5, kUnaryLevel = 7, kPrimaryLevel = 8;

int levelOf(const Node& node) {
  if (node.kind == Kind::kCondition) return kConditionLevel;
  if (node.kind == Kind::kUnary) return kUnaryLevel;
  if (node.kind != Kind::kBinary) return kPrimaryLevel;
  const std::string& op = node.name;
  if (op == "||") return 1;
  if (op == "&&") return 2;
  if (op == "==" || op == "!=") return 3;
  if (op == "<" || op == "<=" || op == ">" || op == ">=") return 4;
  return op == "+" || op == "-" ? kSumLevel : kSumLevel + 1;
}

std::string numberText(const Node& node) {
  if (!node.real) return absl::StrFormat("%.0f", node.number);
  std::string text = absl::StrFormat("%.17g", node.number);
  // The shortest text that reads back to the same number.
  for (int digits = 1; digits < 17; ++digits) {
    const std::string shorter = absl::StrFormat("%.*g", digits, node.number);
    if (std::stod(shorter) != node.number) continue;
    text = shorter;
    break;
  }
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string within(const Node& node, int level) {
  const std::string text = print(node);
  return levelOf(node) < level ? absl::StrCat("(", text, ")") : text;
}

std::string list(const std::vector<NodePtr>& nodes) {
  return absl::StrJoin(nodes, ", ", [](std::string* out, const NodePtr& node) { *out += print(*node); });
}

const char* assignmentOf(Accumulation accumulation) {
  switch (accumulation) {
    case Accumulation::kSum:
      return "+=";
    case Accumulation::kProduct:
      return "*=";
    case Accumulation::kMax:
      return "max=";
    case Accumulation::kMin:
      return "min=";
    case Accumulation::kNone:
      return "=";
  }
  return "=";
}

}  // namespace

std::string print(const Node& node) {
  switch (node.kind) {
    case Kind::kNumber:
      return numberText(node);
    case Kind::kName:
      return node.name;
    case Kind::kAccess:
      return absl::StrCat(node.name, "[", list(node.children), "]");
    case Kind::kCall:
      return absl::StrCat(node.name, "(", list(node.children), ")");
    case Kind::kUnary:
      return absl::StrCat(node.name, within(*node.children[0], kUnaryLevel));
    case Kind::kCondition:
      return absl::StrCat(within(*node.children[0], kConditionLevel + 1), " ? ", print(*node.children[1]), " : ",
                          print(*node.children[2]));
    case Kind::kBinary: {
      const int level = levelOf(node);
      // Operators associate to the left, so an equal one on the right needs parentheses.
      return absl::StrCat(within(*node.children[0], level), " ", node.name, " ", within(*node.children[1], level + 1));
    }
  }
  return "";
}

std::string print(const Statement& statement) {
  std::string text = absl::StrCat(statement.name, "[", absl::StrJoin(statement.indices, ", "), "] ",
                                  assignmentOf(statement.accumulation), " ", print(*statement.value));
  if (statement.bounds.empty()) return text;
  return absl::StrCat(text, " where ", absl::StrJoin(statement.bounds, ", ", [](std::string* out, const Bound& bound) {
                        // A bound ends at the level of sums: a comparison would read on.
                        absl::StrAppend(out, bound.variable, " < ", within(*bound.extent, kSumLevel));
                      }));
}

std::string print(const Program& program) {
  std::string text;
  for (const Param& param : program.params)
    absl::StrAppend(&text, "param ", param.name, " = ", print(*param.value), ";\n");
  for (const Input& input : program.inputs)
    absl::StrAppend(&text, "input ", input.name, "[", list(input.shape), "]: ", nameOfType(input.dtype), ";\n");
  for (const Statement& statement : program.statements) absl::StrAppend(&text, print(statement), ";\n");
  if (!program.outputs.empty()) absl::StrAppend(&text, "output ", absl::StrJoin(program.outputs, ", "), ";\n");
  return text;
}

}  // namespace tessera::compiler::expression
