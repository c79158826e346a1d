#include "compiler/training/scalar_adjoint.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/gradient/derivative_rules.h"
#include "compiler/import/model_error.h"
#include "compiler/import/scalars.h"
#include "compiler/training/node_name.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::training {
namespace {

namespace arith = mlir::arith;
namespace math = mlir::math;
using expression::Kind;
using expression::Node;
using mlir::Value;

/// Operations and the functions of the table of derivatives (gradient/derivative_rules.h).
struct FunctionOfOp {
  std::string_view op, function;
};
constexpr FunctionOfOp kFunctions[] = {
    {"arith.addf", "+"},       {"arith.subf", "-"},         {"arith.mulf", "*"},       {"arith.divf", "/"},
    {"arith.maximumf", "max"}, {"arith.maxnumf", "max"},    {"arith.minimumf", "min"}, {"arith.minnumf", "min"},
    {"math.exp", "exp"},       {"math.exp2", "exp2"},       {"math.expm1", "expm1"},   {"math.log", "log"},
    {"math.log1p", "log1p"},   {"math.log2", "log2"},       {"math.sqrt", "sqrt"},     {"math.rsqrt", "rsqrt"},
    {"math.tanh", "tanh"},     {"math.erf", "erf"},         {"math.sin", "sin"},       {"math.cos", "cos"},
    {"math.tan", "tan"},       {"math.atan", "atan"},       {"math.asin", "asin"},     {"math.acos", "acos"},
    {"math.sinh", "sinh"},     {"math.cosh", "cosh"},       {"math.asinh", "asinh"},   {"math.acosh", "acosh"},
    {"math.atanh", "atanh"},   {"math.absf", "abs"},        {"math.floor", "floor"},   {"math.ceil", "ceil"},
    {"math.round", "floor"},   {"math.roundeven", "floor"}, {"math.trunc", "floor"},   {"math.powf", "pow"},
};

std::string_view functionOf(mlir::Operation* op) {
  const auto* row = std::ranges::find(kFunctions, std::string_view(op->getName().getStringRef()), &FunctionOfOp::op);
  return row == std::end(kFunctions) ? std::string_view() : row->function;
}

v1::DataType typeOf(Value value) {
  const mlir::Type type = value.getType();
  if (type.isF64()) return v1::DATA_TYPE_F64;
  if (type.isF16()) return v1::DATA_TYPE_F16;
  return type.isBF16() ? v1::DATA_TYPE_BF16 : v1::DATA_TYPE_F32;
}

bool isNumber(const Node& node, double value) { return node.kind == Kind::kNumber && node.number == value; }

/// Emits a rule's text for operands a and b and the value y.
class RuleEmitter {
 public:
  RuleEmitter(const Scalars& scalars, Value a, Value b, Value y) : s_(scalars), a_(a), b_(b), y_(y) {}

  Value emit(const Node& node) const {
    switch (node.kind) {
      case Kind::kNumber:
        return s_.constant(node.number);
      case Kind::kName:
        return node.name == "a" ? a_ : node.name == "b" ? b_ : y_;
      case Kind::kUnary:
        return s_.neg(emit(*node.children[0]));
      case Kind::kCondition:
        return s_.select(emit(*node.children[0]), emit(*node.children[1]), emit(*node.children[2]));
      case Kind::kCall:
        return call(node);
      default:
        break;
    }
    const Value x = emit(*node.children[0]), y = emit(*node.children[1]);
    if (node.name == "+") return s_.add(x, y);
    if (node.name == "-") return s_.sub(x, y);
    if (node.name == "*") return s_.mul(x, y);
    if (node.name == "/") return s_.div(x, y);
    return s_.compare(node.name == "=="  ? Relation::kEqual
                      : node.name == "<" ? Relation::kLess
                                         : Relation::kGreater,
                      x, y);
  }

 private:
  Value call(const Node& node) const {
    const Value x = emit(*node.children[0]);
    const std::string_view name = node.name;
    if (name == "exp") return s_.math<math::ExpOp>(x);
    if (name == "log") return s_.math<math::LogOp>(x);
    if (name == "sqrt") return s_.math<math::SqrtOp>(x);
    if (name == "cos") return s_.math<math::CosOp>(x);
    if (name == "sin") return s_.math<math::SinOp>(x);
    if (name == "floor") return s_.math<math::FloorOp>(x);
    return s_.math<math::PowFOp>(x, emit(*node.children[1]));
  }

  const Scalars& s_;
  Value a_, b_, y_;
};

/// max(0, x) as the importer writes it: x < 0 ? 0 : x. Its derivative at 0 is 0, as frameworks define it for Relu.
bool isRelu(arith::SelectOp select) {
  auto compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
  return compare && compare.getPredicate() == arith::CmpFPredicate::OLT && compare.getLhs() == select.getFalseValue() &&
         compare.getRhs() == select.getTrueValue() && mlir::matchPattern(compare.getRhs(), mlir::m_AnyZeroFloat());
}

class Reverse {
 public:
  Reverse(mlir::OpBuilder& builder, mlir::Location loc, const BodyAdjoint& request)
      : b_(builder), loc_(loc), request_(request) {}

  absl::StatusOr<llvm::SmallVector<Value>> run() {
    for (const Value value : request_.wanted) depends_.insert(value);
    for (mlir::Operation& op : request_.body)
      if (op.getNumResults() == 1 && mlir::isa<mlir::FloatType>(op.getResult(0).getType()) &&
          llvm::any_of(op.getOperands(), [&](Value operand) { return depends_.contains(operand); }))
        depends_.insert(op.getResult(0));
    adjoints_[request_.result] = request_.seed;
    for (mlir::Operation& op : llvm::reverse(request_.body)) {
      if (op.getNumResults() != 1 || !depends_.contains(op.getResult(0))) continue;
      if (llvm::is_contained(request_.wanted, op.getResult(0))) continue;
      const auto found = adjoints_.find(op.getResult(0));
      if (found == adjoints_.end()) continue;
      const Value adjoint = found->second;
      TESSERA_RETURN_IF_ERROR(through(op, adjoint));
    }
    llvm::SmallVector<Value> results;
    for (const Value value : request_.wanted) results.push_back(adjoints_.lookup(value));
    return results;
  }

 private:
  Scalars scalars(Value like) { return Scalars(b_, loc_, typeOf(like)); }
  Value forward(Value value) const { return request_.forward.lookupOrDefault(value); }

  void add(Value of, Value part) {
    if (!depends_.contains(of)) return;
    Value& sum = adjoints_[of];
    sum = sum ? scalars(part).add(sum, part) : part;
  }

  absl::Status through(mlir::Operation& op, Value adjoint) {
    const Scalars s = scalars(op.getResult(0));
    if (auto select = mlir::dyn_cast<arith::SelectOp>(op)) {
      Value takes_first = forward(select.getCondition());
      const Value zero = s.constant(0);
      if (isRelu(select)) {
        const Value positive =
            s.compare(Relation::kGreater, forward(select.getFalseValue()), forward(select.getTrueValue()));
        add(select.getFalseValue(), s.select(positive, adjoint, zero));
        return absl::OkStatus();
      }
      if (depends_.contains(select.getTrueValue())) add(select.getTrueValue(), s.select(takes_first, adjoint, zero));
      if (depends_.contains(select.getFalseValue())) add(select.getFalseValue(), s.select(takes_first, zero, adjoint));
      return absl::OkStatus();
    }
    if (mlir::isa<arith::ExtFOp, arith::TruncFOp>(op)) {
      add(op.getOperand(0), s.cast(adjoint, typeOf(op.getOperand(0))));
      return absl::OkStatus();
    }
    if (mlir::isa<arith::NegFOp>(op)) {
      add(op.getOperand(0), s.neg(adjoint));
      return absl::OkStatus();
    }
    const std::string_view function = functionOf(&op);
    const auto rules = gradient::derivativeRules();
    const auto rule = std::ranges::find(rules, function, &gradient::DerivativeRule::function);
    if (function.empty() || rule == rules.end())
      return fault(v1::Failure::UNSUPPORTED_OPERATOR,
                   absl::StrCat("no derivative of ", op.getName().getStringRef().str(), " is known"),
                   {.found = op.getName().getStringRef().str(),
                    .accepted = "operators whose elements are computed by arithmetic, exp, log, pow, roots, erf, and "
                                "trigonometric and hyperbolic functions",
                    .remedy = "freeze what the operator depends on: --frozen NAME",
                    .node = nodeName(*op.getBlock()->getParentOp())});
    for (const unsigned position : {0U, 1U}) {
      if (position >= op.getNumOperands() || !depends_.contains(op.getOperand(position))) continue;
      TESSERA_ASSIGN_OR_RETURN(const Value part,
                               product(s, op, adjoint, position == 0 ? rule->of_first : rule->of_second));
      if (part) add(op.getOperand(position), part);
    }
    return absl::OkStatus();
  }

  /// adjoint * partial derivative; null if that is 0.
  absl::StatusOr<Value> product(const Scalars& s, mlir::Operation& op, Value adjoint, std::string_view text) {
    TESSERA_ASSIGN_OR_RETURN(const expression::Program program,
                             expression::parse(absl::StrCat("D[] = ", std::string(text), ";")));
    const Node& partial = *program.statements[0].value;
    if (isNumber(partial, 0)) return Value();
    if (isNumber(partial, 1)) return adjoint;
    const bool negative = partial.kind == Kind::kUnary && partial.name == "-";
    const Node& factor = negative ? *partial.children[0] : partial;
    const RuleEmitter rule(s, forward(op.getOperand(0)), op.getNumOperands() > 1 ? forward(op.getOperand(1)) : Value(),
                           forward(op.getResult(0)));
    Value result = adjoint;
    if (factor.kind == Kind::kBinary && factor.name == "/" && isNumber(*factor.children[0], 1)) {
      result = s.div(adjoint, rule.emit(*factor.children[1]));
    } else if (!isNumber(factor, 1)) {
      result = s.mul(adjoint, rule.emit(factor));
    }
    return negative ? s.neg(result) : result;
  }

  mlir::OpBuilder& b_;
  const mlir::Location loc_;
  const BodyAdjoint& request_;
  llvm::DenseSet<Value> depends_;
  llvm::DenseMap<Value, Value> adjoints_;
};

}  // namespace

absl::StatusOr<llvm::SmallVector<Value>> emitAdjoints(mlir::OpBuilder& builder, mlir::Location loc,
                                                      const BodyAdjoint& adjoint) {
  return Reverse(builder, loc, adjoint).run();
}

}  // namespace tessera::compiler::training
