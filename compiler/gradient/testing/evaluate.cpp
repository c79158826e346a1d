#include "compiler/gradient/testing/evaluate.h"

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/bounds.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient::testing {
namespace {

using expression::Accumulation;
using expression::Constants;
using expression::Kind;
using expression::Loop;
using expression::Node;
using expression::Statement;

using Point = std::map<std::string, int64_t>;

int64_t floorDivision(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

Dual unary(const std::string& name, Dual x) {
  const double v = x.value;
  const auto made = [&](double value, double slope) { return Dual{value, slope * x.tangent}; };
  if (name == "exp") return made(std::exp(v), std::exp(v));
  if (name == "log") return made(std::log(v), 1 / v);
  if (name == "sqrt") return made(std::sqrt(v), 0.5 / std::sqrt(v));
  if (name == "rsqrt") return made(1 / std::sqrt(v), -0.5 / (v * std::sqrt(v)));
  if (name == "tanh") return made(std::tanh(v), 1 / (std::cosh(v) * std::cosh(v)));
  if (name == "erf") return made(std::erf(v), 2 / std::sqrt(M_PI) * std::exp(-v * v));
  if (name == "sin") return made(std::sin(v), std::cos(v));
  if (name == "cos") return made(std::cos(v), -std::sin(v));
  if (name == "abs") return made(std::abs(v), v > 0 ? 1 : v < 0 ? -1 : 0);
  if (name == "floor") return made(std::floor(v), 0);
  if (name == "ceil") return made(std::ceil(v), 0);
  return x;  // a cast
}

Dual binary(const std::string& name, Dual a, Dual b) {
  if (name == "+") return {a.value + b.value, a.tangent + b.tangent};
  if (name == "-") return {a.value - b.value, a.tangent - b.tangent};
  if (name == "*") return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
  if (name == "/") return {a.value / b.value, (a.tangent * b.value - a.value * b.tangent) / (b.value * b.value)};
  if (name == "max") return a.value >= b.value ? a : b;
  if (name == "min") return a.value <= b.value ? a : b;
  if (name == "%") {
    const double whole = std::floor(a.value / b.value);
    return {a.value - whole * b.value, a.tangent - whole * b.tangent};
  }
  const double power = std::pow(a.value, b.value);
  return {power, b.value * std::pow(a.value, b.value - 1) * a.tangent + power * std::log(a.value) * b.tangent};
}

bool compare(const std::string& op, double x, double y) {
  if (op == "==") return x == y;
  if (op == "!=") return x != y;
  if (op == "<") return x < y;
  if (op == "<=") return x <= y;
  return op == ">" ? x > y : x >= y;
}

class StatementRun {
 public:
  StatementRun(const Statement& statement, const Constants& constants, const DualTensors& tensors)
      : statement_(statement), constants_(constants), tensors_(tensors) {}

  absl::StatusOr<DualTensor> run(const std::vector<Loop>& loops) {
    DualTensor result;
    size_t size = 1;
    for (const Loop& loop : loops) {
      point_[loop.variable] = 0;
      if (loop.reduction) continue;
      result.shape.push_back(loop.extent);
      size *= static_cast<size_t>(loop.extent);
    }
    result.elements.resize(size);
    started_.assign(size, false);
    visit(loops, 0, 0, result);
    if (!fault_.empty()) return absl::OutOfRangeError(fault_);
    return result;
  }

 private:
  void visit(const std::vector<Loop>& loops, size_t depth, size_t element, DualTensor& result) {
    if (depth == loops.size()) {
      const Dual value = valueOf(*statement_.value);
      Dual& into = result.elements[element];
      into = started_[element] ? combined(into, value) : value;
      started_[element] = true;
      return;
    }
    const Loop& loop = loops[depth];
    int64_t& at = point_[loop.variable];
    for (at = 0; at < loop.extent; ++at)
      visit(loops, depth + 1,
            loop.reduction ? element : element * static_cast<size_t>(loop.extent) + static_cast<size_t>(at), result);
    at = 0;
  }

  Dual combined(Dual x, Dual y) const {
    switch (statement_.accumulation) {
      case Accumulation::kProduct:
        return binary("*", x, y);
      case Accumulation::kMax:
        return binary("max", x, y);
      case Accumulation::kMin:
        return binary("min", x, y);
      default:
        return binary("+", x, y);
    }
  }

  int64_t index(const Node& node) const {
    if (node.kind == Kind::kNumber) return static_cast<int64_t>(node.number);
    if (node.kind == Kind::kName) {
      const auto constant = constants_.find(node.name);
      return constant != constants_.end() ? constant->second : point_.at(node.name);
    }
    const int64_t x = index(*node.children[0]);
    if (node.kind == Kind::kUnary) return -x;
    const int64_t y = index(*node.children[1]);
    if (node.name == "+") return x + y;
    if (node.name == "-") return x - y;
    if (node.name == "*") return x * y;
    return node.name == "/" ? floorDivision(x, y) : x - floorDivision(x, y) * y;
  }

  /// Arithmetic on loops and integers is integer arithmetic, and divides towards 0.
  bool isInteger(const Node& node) const {
    if (node.kind == Kind::kNumber) return !node.real;
    if (node.kind == Kind::kName) return true;
    if (node.kind != Kind::kBinary && node.kind != Kind::kUnary) return false;
    for (const auto& child : node.children)
      if (!isInteger(*child)) return false;
    return true;
  }

  Dual valueOf(const Node& node) {
    switch (node.kind) {
      case Kind::kNumber:
        return {node.number, 0};
      case Kind::kName:
        return {static_cast<double>(index(node)), 0};
      case Kind::kAccess:
        return elementOf(node);
      case Kind::kUnary: {
        const Dual x = valueOf(*node.children[0]);
        return {-x.value, -x.tangent};
      }
      case Kind::kCondition:
        return valueOf(*node.children[holds(*node.children[0]) ? 1 : 2]);
      case Kind::kCall:
        if (node.children.size() == 1) return unary(node.name, valueOf(*node.children[0]));
        return binary(node.name, valueOf(*node.children[0]), valueOf(*node.children[1]));
      case Kind::kBinary: {
        Dual value = binary(node.name, valueOf(*node.children[0]), valueOf(*node.children[1]));
        if (node.name == "/" && isInteger(node)) value.value = std::trunc(value.value);
        return value;
      }
    }
    return {};
  }

  bool holds(const Node& node) {
    if (node.name == "!") return !holds(*node.children[0]);
    if (node.name == "&&") return holds(*node.children[0]) && holds(*node.children[1]);
    if (node.name == "||") return holds(*node.children[0]) || holds(*node.children[1]);
    return compare(node.name, valueOf(*node.children[0]).value, valueOf(*node.children[1]).value);
  }

  Dual elementOf(const Node& node) {
    const DualTensor& tensor = tensors_.at(node.name);
    size_t element = 0;
    for (size_t d = 0; d < node.children.size(); ++d) {
      const int64_t at = index(*node.children[d]);
      if (at < 0 || at >= tensor.shape[d]) {
        fault_ = absl::StrCat("a read of '", node.name, "' in '", statement_.name, "' is outside: subscript ", d,
                              " is ", at);
        return {};
      }
      element = element * static_cast<size_t>(tensor.shape[d]) + static_cast<size_t>(at);
    }
    return tensor.elements[element];
  }

  const Statement& statement_;
  const Constants& constants_;
  const DualTensors& tensors_;
  Point point_;
  std::vector<bool> started_;
  std::string fault_;
};

absl::StatusOr<Constants> constantsOf(const expression::Program& program) {
  Constants constants;
  for (const expression::Param& param : program.params) {
    TESSERA_ASSIGN_OR_RETURN(constants[param.name], expression::evaluate(*param.value, constants));
  }
  return constants;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::vector<int64_t>>> inputShapes(const expression::Program& program) {
  TESSERA_ASSIGN_OR_RETURN(const Constants constants, constantsOf(program));
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const expression::Input& input : program.inputs) {
    std::vector<int64_t>& shape = shapes[input.name];
    for (const auto& extent : input.shape) {
      TESSERA_ASSIGN_OR_RETURN(const int64_t value, expression::evaluate(*extent, constants));
      shape.push_back(value);
    }
  }
  return shapes;
}

absl::StatusOr<DualTensors> evaluateProgram(const expression::Program& program, DualTensors inputs) {
  TESSERA_ASSIGN_OR_RETURN(const Constants constants, constantsOf(program));
  expression::Shapes shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape;
  for (const Statement& statement : program.statements) {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<Loop> loops, expression::inferLoops(statement, shapes, constants));
    TESSERA_ASSIGN_OR_RETURN(DualTensor tensor, StatementRun(statement, constants, inputs).run(loops));
    shapes[statement.name] = tensor.shape;
    inputs[statement.name] = std::move(tensor);
  }
  return inputs;
}

}  // namespace tessera::compiler::gradient::testing
