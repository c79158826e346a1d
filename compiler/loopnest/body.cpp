#include "compiler/loopnest/body.h"

#include <algorithm>

namespace tessera::compiler::loopnest {

std::span<const OperationKind> operationKinds() {
  static constexpr OperationKind kinds[] = {
      {"constant", 0, ""}, {"neg", 1, "-"}, {"add", 2, "+"}, {"sub", 2, "-"},  {"mul", 2, "*"}, {"div", 2, "/"},
      {"max", 2, ""},      {"min", 2, ""},  {"pow", 2, ""},  {"exp", 1, ""},   {"log", 1, ""},  {"sqrt", 1, ""},
      {"tanh", 1, ""},     {"erf", 1, ""},  {"abs", 1, ""},  {"floor", 1, ""}, {"ceil", 1, ""},
  };
  return kinds;
}

const OperationKind* operationKind(std::string_view name) {
  const auto kinds = operationKinds();
  const auto found = std::ranges::find(kinds, name, &OperationKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

std::vector<Operation> productOf(size_t inputs) {
  std::vector<Operation> operations;
  for (int input = 1; input < static_cast<int>(inputs); ++input) {
    const int before = input == 1 ? 0 : static_cast<int>(inputs) + input - 2;
    operations.push_back({.name = "mul", .operands = {before, input}});
  }
  return operations;
}

bool isProduct(const Statement& statement) {
  const Body& body = statement.body;
  if (body.opaque || body.operations.size() + 1 != statement.inputs.size()) return false;
  std::vector<int> uses(statement.inputs.size() + body.operations.size(), 0);
  for (const Operation& operation : body.operations) {
    if (operation.name != "mul") return false;
    for (const int operand : operation.operands) ++uses[static_cast<size_t>(operand)];
  }
  // A tree of products uses each value once, except for the last one, which is the result.
  uses.back() += 1;
  return std::ranges::all_of(uses, [](int count) { return count == 1; });
}

}  // namespace tessera::compiler::loopnest
