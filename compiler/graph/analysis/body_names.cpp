#include "compiler/graph/analysis/body_names.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/match.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/CastInterfaces.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Operation;
using mlir::Value;

/// Returns "add" for "addf" and "addi", "max" for "maximumf", and so on.
std::string nameOf(Operation& op) {
  std::string name = op.getName().stripDialect().str();
  if (mlir::isa<arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp, arith::MaxUIOp>(op)) return "max";
  if (mlir::isa<arith::MinimumFOp, arith::MinNumFOp, arith::MinSIOp, arith::MinUIOp>(op)) return "min";
  const bool typed = name.size() > 3 && (name.ends_with("f") || name.ends_with("i"));
  if (typed && mlir::isa<arith::ArithDialect>(op.getDialect())) name.pop_back();
  return name;
}

Operation* throughCasts(Value value) {
  Operation* op = value.getDefiningOp();
  while (op && mlir::isa<mlir::CastOpInterface>(op)) op = op->getOperand(0).getDefiningOp();
  return op;
}

std::optional<double> constantOf(Value value) {
  Operation* op = throughCasts(value);
  mlir::Attribute attribute;
  if (!op || !mlir::matchPattern(op, mlir::m_Constant(&attribute))) return std::nullopt;
  if (auto real = mlir::dyn_cast<mlir::FloatAttr>(attribute)) return real.getValueAsDouble();
  if (auto integer = mlir::dyn_cast<mlir::IntegerAttr>(attribute))
    return static_cast<double>(integer.getValue().getSExtValue());
  return std::nullopt;
}

/// The operations from a value x to `root`; besides x they read only constants.
struct Function {
  Operation* root;
  Value x;
  std::vector<Operation*> operations;  ///< including root
  std::map<std::string, int> kinds;    ///< of the operations, without casts

  int count(const char* kind) const {
    const auto found = kinds.find(kind);
    return found == kinds.end() ? 0 : found->second;
  }
  bool only(std::initializer_list<const char*> allowed) const {
    return std::all_of(kinds.begin(), kinds.end(), [&](const auto& kind) {
      return std::find(allowed.begin(), allowed.end(), kind.first) != allowed.end();
    });
  }
  bool rootIs(const char* kind) const { return nameOf(*root) == kind; }
  bool rootReads(Value value) const {
    return llvm::any_of(root->getOperands(), [&](Value operand) {
      const Operation* made = throughCasts(operand);
      return operand == value || (made && made == throughCasts(value));
    });
  }
};

/// One bound of a clip: max(x, bound), or a select between both on a comparison of them.
struct Bound {
  bool lower;
  double value;
};

std::optional<Bound> boundOf(Operation* op) {
  const std::string kind = nameOf(*op);
  if (kind == "max" || kind == "min") {
    for (Value operand : op->getOperands())
      if (const auto bound = constantOf(operand)) return Bound{kind == "max", *bound};
    return std::nullopt;
  }
  auto select = mlir::dyn_cast<arith::SelectOp>(op);
  if (!select) return std::nullopt;
  Operation* condition = select.getCondition().getDefiningOp();
  if (!condition || nameOf(*condition) != "cmp") return std::nullopt;
  const auto if_true = constantOf(select.getTrueValue()), if_false = constantOf(select.getFalseValue());
  const auto left = constantOf(condition->getOperand(0)), right = constantOf(condition->getOperand(1));
  // Exactly one side of the select and of the comparison is a constant, and both are the same one.
  if (if_true.has_value() == if_false.has_value() || left.has_value() == right.has_value()) return std::nullopt;
  const double value = if_true ? *if_true : *if_false;
  if (value != (left ? *left : *right)) return std::nullopt;
  std::string predicate;
  if (auto real = mlir::dyn_cast<arith::CmpFOp>(condition)) predicate = stringifyCmpFPredicate(real.getPredicate());
  if (auto whole = mlir::dyn_cast<arith::CmpIOp>(condition)) predicate = stringifyCmpIPredicate(whole.getPredicate());
  const bool less = absl::StrContains(predicate, "l"), greater = absl::StrContains(predicate, "g");
  if (less == greater) return std::nullopt;
  // `less` with the constant on the left means the value is above it: both turn the meaning around.
  return Bound{(less != left.has_value()) == if_true.has_value(), value};
}

/// Returns relu, relu6 or clip; empty if the function is none of them.
std::string clipName(const Function& f) {
  std::vector<Bound> bounds;
  for (Operation* op : f.operations) {
    if (nameOf(*op) == "cmp" || mlir::isa<mlir::CastOpInterface>(op)) continue;
    const auto bound = boundOf(op);
    if (!bound) return "";
    bounds.push_back(*bound);
  }
  const auto has = [&](bool lower, double value) {
    return std::any_of(bounds.begin(), bounds.end(),
                       [&](const Bound& each) { return each.lower == lower && each.value == value; });
  };
  if (bounds.size() == 1 && has(true, 0)) return "relu";
  if (bounds.size() == 2 && has(true, 0) && has(false, 6)) return "relu6";
  return "clip";
}

/// Returns the name of a known function, or nothing.
std::string functionName(const Function& f) {
  // The patterns follow how exporters write each function; a body with an unknown operation gets no name.
  const bool stepwise = f.count("select") + f.count("max") + f.count("min") > 0;
  if (f.count("erf") == 1 && f.count("add") > 0 && f.rootIs("mul") && f.only({"erf", "add", "mul", "div"}))
    return "gelu";
  if (f.count("tanh") == 1 && f.count("mul") >= 3 && f.count("add") > 0 && f.rootIs("mul") &&
      f.only({"tanh", "add", "mul", "div", "powf", "fpowi"}))
    return "gelu";
  // 1 / (1 + exp(-x)); the sign is part of it.
  const bool negated = f.count("neg") + f.count("sub") + f.count("mul") > 0;
  if (f.count("exp") == 1 && f.count("div") == 1 && negated && f.only({"exp", "div", "add", "neg", "sub", "mul"})) {
    const auto numerator = f.rootIs("div") ? constantOf(f.root->getOperand(0)) : std::nullopt;
    if (numerator == 1) return "sigmoid";
    if (f.rootReads(f.x) && (f.rootIs("mul") || f.rootIs("div"))) return "silu";
  }
  if (f.count("log1p") == 1 && f.count("exp") == 1 && f.rootIs("add") &&
      f.only({"log1p", "exp", "neg", "absf", "abs", "max", "add", "cmp", "select"}))
    return "softplus";
  if (f.count("expm1") == 1 && stepwise && f.only({"expm1", "cmp", "select", "max", "min", "mul", "div", "add"}))
    return f.rootIs("mul") ? "selu" : f.rootIs("add") ? "celu" : "elu";
  if (stepwise && f.only({"cmp", "select", "max", "min"})) return clipName(f);
  if (f.rootIs("select") && f.count("select") == 1 && f.count("mul") == 1 && f.only({"cmp", "select", "mul"}))
    return "leaky relu";
  if (f.rootIs("mul") && f.rootReads(f.x) && stepwise && f.only({"cmp", "select", "max", "min", "mul", "add"}) &&
      f.count("add") == 1)
    return "hard swish";
  return "";
}

/// Returns the operations from `root` back to x if they read only x and constants.
std::optional<Function> functionOf(Operation* root, Value x) {
  Function f{root, x, {}, {}};
  llvm::SetVector<Operation*> reached;
  reached.insert(root);
  // A worklist back from the root.
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation* op = reached[i];
    if (op->getNumResults() != 1 || op->getNumRegions() > 0) return std::nullopt;
    f.operations.push_back(op);
    if (!mlir::isa<mlir::CastOpInterface>(op)) ++f.kinds[nameOf(*op)];
    for (Value operand : op->getOperands()) {
      if (operand == x || constantOf(operand)) continue;
      Operation* made = operand.getDefiningOp();
      if (!made || made->getBlock() != root->getBlock()) return std::nullopt;
      reached.insert(made);
    }
  }
  return f;
}

/// Returns the known function that ends in `root`, with the nearest value as x. Operations outside it are named
/// separately.
std::optional<std::pair<std::string, Function>> knownFunction(Operation* root) {
  llvm::SetVector<Value> values;
  for (Value operand : root->getOperands()) values.insert(operand);
  std::optional<std::pair<std::string, Function>> clip;  // may have another bound
  for (size_t i = 0; i < values.size(); ++i) {
    if (constantOf(values[i])) continue;
    if (auto f = functionOf(root, values[i])) {
      std::string name = functionName(*f);
      // A value inside that others read must be computed anyway, so the function is not one thing.
      const bool inside = llvm::all_of(f->operations, [&](Operation* op) {
        return op == root ||
               llvm::all_of(op->getUsers(), [&](Operation* user) { return llvm::is_contained(f->operations, user); });
      });
      if (inside && !name.empty()) {
        std::pair<std::string, Function> found(std::move(name), *std::move(f));
        // A clip with one bound may be the inner part of a clip with two.
        if (found.first != "clip") return found;
        clip = std::move(found);
      }
    }
    if (Operation* made = values[i].getDefiningOp(); made && made->getBlock() == root->getBlock())
      for (Value operand : made->getOperands()) values.insert(operand);
  }
  return clip;
}

}  // namespace

std::vector<std::string> bodyNames(mlir::linalg::LinalgOp op) {
  constexpr ptrdiff_t kLongest = 64;  // operations; for longer bodies only the number is given
  const bool looked = std::distance(op.getBlock()->begin(), op.getBlock()->end()) <= kLongest;
  std::set<Operation*> named;
  std::vector<std::string> names;
  // Backwards, so that the last operation of a function names it.
  for (Operation& inner : llvm::reverse(op.getBlock()->without_terminator())) {
    if (mlir::isa<arith::ConstantOp, mlir::linalg::IndexOp>(inner) || named.contains(&inner)) continue;
    if (auto known = looked ? knownFunction(&inner) : std::nullopt) {
      named.insert(known->second.operations.begin(), known->second.operations.end());
      names.push_back(std::move(known->first));
    } else {
      names.push_back(nameOf(inner));
    }
  }
  std::reverse(names.begin(), names.end());
  return names;
}

std::vector<std::string> withSoftmax(const std::vector<std::string>& names) {
  // Maximum of a row, differences, exponentials, their sum, quotients; guards of empty rows may be in between.
  const std::vector<std::string_view> steps = {"reduce(max)", "sub", "exp", "reduce(add)", "div"};
  std::vector<std::string> result;
  for (size_t i = 0; i < names.size(); ++i) {
    size_t step = 0, at = i;
    std::string shape;
    for (; at < names.size() && step < steps.size(); ++at) {
      const std::string& name = names[at];
      if (name == "sub + exp" && steps[step] == "sub") {
        // Subtraction and exponential may have become one operation.
        step += 2;
      } else if (name == steps[step] || absl::StartsWith(name, std::string(steps[step]) + " ")) {
        if (step == 0) shape = name.substr(steps[0].size());
        ++step;
      } else if (step == 0 || (name != "cmp + select" && name != "copy")) {
        // Anything but a guard between the steps ends the match.
        break;
      }
    }
    if (step == steps.size()) {
      result.push_back("softmax" + shape);
      i = at - 1;
    } else {
      result.push_back(names[i]);
    }
  }
  return result;
}

}  // namespace tessera::compiler
