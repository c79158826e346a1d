#include "compiler/training/window_gradient.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/gradient/gradient.h"
#include "compiler/import/expression/lower.h"
#include "compiler/import/expression/make_node.h"
#include "compiler/import/model_error.h"
#include "compiler/training/node_name.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::training {
namespace {

using expression::NodePtr;
using expression::Program;
using expression::Statement;
using mlir::AffineExpr;
using mlir::Value;
using mlir::linalg::GenericOp;

constexpr char kResult[] = "O";

std::string loopName(unsigned loop) { return absl::StrCat("l", loop); }
std::string operandName(unsigned operand) { return absl::StrCat("T", operand); }

struct BinaryRow {
  std::string_view op, symbol;
};
constexpr BinaryRow kBinary[] = {{"arith.addf", "+"}, {"arith.subf", "-"}, {"arith.mulf", "*"}, {"arith.divf", "/"}};
constexpr BinaryRow kUnary[] = {{"math.exp", "exp"},     {"math.log", "log"},   {"math.sqrt", "sqrt"},
                                {"math.rsqrt", "rsqrt"}, {"math.tanh", "tanh"}, {"math.erf", "erf"},
                                {"math.sin", "sin"},     {"math.cos", "cos"},   {"math.absf", "abs"}};

/// Writes an operation as a statement of a tensor expression.
class StatementOf {
 public:
  StatementOf(GenericOp op, const Accumulation& accumulation)
      : op_(op), accumulation_(accumulation), maps_(op.getIndexingMapsArray()) {}

  absl::StatusOr<Program> program() {
    Program program;
    for (unsigned i = 0; i < op_.getNumDpsInputs(); ++i) {
      const auto type = mlir::cast<mlir::RankedTensorType>(op_.getDpsInputs()[i].getType());
      if (op_.getBody()->getArgument(i).use_empty()) continue;
      expression::Input input{
          .name = operandName(i), .at = {}, .shape = {}, .dtype = floatTypeOf(op_.getDpsInputs()[i])};
      if (input.dtype == v1::DATA_TYPE_UNSPECIFIED) return unsupported(type.getElementType());
      for (const int64_t extent : type.getShape()) input.shape.push_back(expression::integerNode(extent));
      program.inputs.push_back(std::move(input));
    }
    Statement& statement = program.statements.emplace_back();
    statement.name = kResult;
    using Kind = Accumulation::Kind;
    const std::map<Kind, expression::Accumulation> kinds = {{Kind::kNone, expression::Accumulation::kNone},
                                                            {Kind::kSum, expression::Accumulation::kSum},
                                                            {Kind::kProduct, expression::Accumulation::kProduct},
                                                            {Kind::kMax, expression::Accumulation::kMax},
                                                            {Kind::kMin, expression::Accumulation::kMin}};
    statement.accumulation = kinds.at(accumulation_.kind);
    for (const AffineExpr expr : maps_.back().getResults())
      statement.indices.push_back(loopName(mlir::cast<mlir::AffineDimExpr>(expr).getPosition()));
    TESSERA_ASSIGN_OR_RETURN(statement.value, valueOf(accumulation_.value));
    for (const auto& [loop, extent] : llvm::enumerate(op_.getStaticLoopRanges()))
      statement.bounds.push_back({loopName(static_cast<unsigned>(loop)), {}, expression::integerNode(extent)});
    program.outputs = {kResult};
    return program;
  }

 private:
  template <typename T>
  absl::Status unsupported(const T& found) {
    std::string text;
    llvm::raw_string_ostream(text) << found;
    return fault(v1::Failure::UNSUPPORTED_OPERATOR, absl::StrCat("no gradient over windows is known of ", text),
                 {.found = text,
                  .accepted = "sums, products, maxima and minima of arithmetic on floats",
                  .remedy = "freeze what the operator depends on: --frozen NAME",
                  .node = nodeName(*op_)});
  }

  absl::StatusOr<NodePtr> valueOf(Value value) {
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value); argument && argument.getOwner() == op_.getBody())
      return read(argument.getArgNumber());
    llvm::APFloat number(0.0);
    if (mlir::matchPattern(value, mlir::m_ConstantFloat(&number))) {
      bool loses = false;
      number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &loses);
      if (number.isFinite()) return expression::realNode(number.convertToDouble());
    }
    mlir::Operation* op = value.getDefiningOp();
    if (op == nullptr) return unsupported(value);
    const std::string_view name = op->getName().getStringRef();
    if (const auto* row = std::ranges::find(kBinary, name, &BinaryRow::op); row != std::end(kBinary)) {
      TESSERA_ASSIGN_OR_RETURN(NodePtr left, valueOf(op->getOperand(0)));
      TESSERA_ASSIGN_OR_RETURN(NodePtr right, valueOf(op->getOperand(1)));
      return expression::binaryNode(std::string(row->symbol), std::move(left), std::move(right));
    }
    if (const auto* row = std::ranges::find(kUnary, name, &BinaryRow::op); row != std::end(kUnary)) {
      TESSERA_ASSIGN_OR_RETURN(NodePtr argument, valueOf(op->getOperand(0)));
      return expression::callNode(std::string(row->symbol), std::move(argument));
    }
    if (mlir::isa<mlir::arith::NegFOp>(op)) {
      TESSERA_ASSIGN_OR_RETURN(NodePtr argument, valueOf(op->getOperand(0)));
      return expression::unaryNode("-", std::move(argument));
    }
    if (mlir::isa<mlir::arith::ExtFOp, mlir::arith::TruncFOp>(op)) {
      TESSERA_ASSIGN_OR_RETURN(NodePtr argument, valueOf(op->getOperand(0)));
      return expression::callNode(expression::nameOfType(floatTypeOf(value)), std::move(argument));
    }
    return unsupported(op->getName());
  }

  absl::StatusOr<NodePtr> read(unsigned operand) {
    std::vector<NodePtr> subscripts;
    for (const AffineExpr expr : maps_[operand].getResults()) {
      TESSERA_ASSIGN_OR_RETURN(NodePtr subscript, subscriptOf(expr));
      subscripts.push_back(std::move(subscript));
    }
    return expression::accessNode(operandName(operand), std::move(subscripts));
  }

  absl::StatusOr<NodePtr> subscriptOf(AffineExpr expr) {
    if (const auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(expr))
      return expression::integerNode(constant.getValue());
    if (const auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(expr))
      return expression::nameNode(loopName(dim.getPosition()));
    const auto binary = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
    if (!binary) return unsupported(expr);
    std::string symbol;
    switch (binary.getKind()) {
      case mlir::AffineExprKind::Add:
        symbol = "+";
        break;
      case mlir::AffineExprKind::Mul:
        symbol = "*";
        break;
      case mlir::AffineExprKind::FloorDiv:
        symbol = "/";
        break;
      case mlir::AffineExprKind::Mod:
        symbol = "%";
        break;
      default:
        return unsupported(expr);
    }
    TESSERA_ASSIGN_OR_RETURN(NodePtr left, subscriptOf(binary.getLHS()));
    TESSERA_ASSIGN_OR_RETURN(NodePtr right, subscriptOf(binary.getRHS()));
    return expression::binaryNode(symbol, std::move(left), std::move(right));
  }

  GenericOp op_;
  const Accumulation& accumulation_;
  llvm::SmallVector<mlir::AffineMap> maps_;
};

/// A failure of the gradient, whose places are those of the expression written here, as one of the node.
absl::Status atNode(GenericOp op, const absl::Status& status) {
  v1::Failure failure = failureOf(status);
  if (failure.reason() != v1::Failure::INTERNAL) failure.set_reason(v1::Failure::UNSUPPORTED_OPERATOR);
  failure.set_node(nodeName(*op));
  failure.set_message(absl::StrCat("the gradient of node '", nodeName(*op), "': ", failure.message()));
  return failureStatus(failure);
}

}  // namespace

absl::Status throughWindows(Emitter& e, GenericOp op, const Accumulation& accumulation,
                            const std::vector<unsigned>& operands, Adjoints& adjoints) {
  TESSERA_ASSIGN_OR_RETURN(const Program program, StatementOf(op, accumulation).program());
  gradient::GradientOptions options;
  for (const unsigned operand : operands) options.inputs.push_back(operandName(operand));
  const absl::StatusOr<gradient::Gradient> gradient = gradient::gradientOf(program, options);
  if (!gradient.ok()) return atNode(op, gradient.status());

  std::map<std::string, Tensor> tensors;
  expression::Shapes shapes;
  const auto define = [&](const std::string& name, Tensor tensor) {
    shapes[name] = tensor.shape;
    tensors[name] = std::move(tensor);
  };
  for (unsigned i = 0; i < op.getNumDpsInputs(); ++i)
    if (const Value operand = op.getDpsInputs()[i]; floatTypeOf(operand) != v1::DATA_TYPE_UNSPECIFIED)
      define(operandName(i), Emitter::wrap(operand, floatTypeOf(operand)));
  const Value result = op.getResult(0);
  define(gradient->output_gradients[0], Emitter::wrap(adjoints.of(result), floatTypeOf(result)));
  // The forward pass has computed the result already.
  define(kResult, Emitter::wrap(result, floatTypeOf(result)));
  for (const Statement& statement : gradient->program.statements) {
    if (statement.name == kResult) continue;
    absl::StatusOr<std::vector<expression::Loop>> loops = expression::inferLoops(statement, shapes, {});
    if (!loops.ok()) return atNode(op, loops.status());
    absl::StatusOr<Tensor> tensor = expression::lowerStatement(e, statement, *loops, tensors, {});
    if (!tensor.ok()) return atNode(op, tensor.status());
    define(statement.name, *std::move(tensor));
  }
  for (size_t i = 0; i < operands.size(); ++i)
    adjoints.add(e, op.getDpsInputs()[operands[i]], tensors.at(gradient->inputs[i].gradient).value);
  return absl::OkStatus();
}

}  // namespace tessera::compiler::training
