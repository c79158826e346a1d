#include "compiler/ir/loop_op.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

MLIR_DEFINE_EXPLICIT_TYPE_ID(tessera::compiler::LoopOp)
MLIR_DEFINE_EXPLICIT_TYPE_ID(tessera::compiler::LoopDialect)

namespace tessera::compiler {
namespace {

constexpr char kBody[] = "body";
constexpr char kTripCount[] = "trip_count";
constexpr char kCondition[] = "condition";
constexpr char kCarried[] = "carried";
constexpr char kMost[] = "most";
constexpr char kScanned[] = "scanned";
constexpr char kStacked[] = "stacked";

unsigned numLeading(const LoopOp::Form& form) {
  return (form.has_trip_count ? 1u : 0u) + (form.has_condition ? 1u : 0u);
}

}  // namespace

LoopDialect::LoopDialect(mlir::MLIRContext* context)
    : mlir::Dialect(getDialectNamespace(), context, mlir::TypeID::get<LoopDialect>()) {
  addOperations<LoopOp>();
}

LoopOp LoopOp::create(mlir::OpBuilder& builder, mlir::Location location, mlir::func::FuncOp body, const Form& form,
                      mlir::ValueRange operands) {
  // A stacked result has one slice for each possible iteration.
  const auto whole = [&](mlir::Type part) -> mlir::Type {
    auto type = mlir::cast<mlir::RankedTensorType>(part);
    llvm::SmallVector<int64_t> shape = {form.most};
    llvm::append_range(shape, type.getShape());
    return mlir::RankedTensorType::get(shape, type.getElementType());
  };
  mlir::OperationState state(location, getOperationName());
  state.addOperands(operands);
  // The condition is a result of the body only; carried values keep their types, others are stacked.
  for (auto [index, type] : llvm::enumerate(body.getResultTypes().drop_front(form.has_condition ? 1 : 0)))
    state.addTypes(static_cast<int64_t>(index) < form.carried ? type : whole(type));
  // The number of executed iterations is always the last result.
  state.addTypes(mlir::RankedTensorType::get({}, builder.getI64Type()));
  state.addAttribute(kBody, mlir::FlatSymbolRefAttr::get(body.getSymNameAttr()));
  state.addAttribute(kTripCount, builder.getBoolAttr(form.has_trip_count));
  state.addAttribute(kCondition, builder.getBoolAttr(form.has_condition));
  state.addAttribute(kCarried, builder.getI64IntegerAttr(form.carried));
  state.addAttribute(kMost, builder.getI64IntegerAttr(form.most));
  state.addAttribute(kScanned, builder.getDenseBoolArrayAttr(form.scanned_reversed));
  state.addAttribute(kStacked, builder.getDenseBoolArrayAttr(form.stacked_reversed));
  return mlir::cast<LoopOp>(builder.create(state));
}

LoopOp::Form LoopOp::form() {
  mlir::Operation* op = getOperation();
  Form form;
  form.has_trip_count = op->getAttrOfType<mlir::BoolAttr>(kTripCount).getValue();
  form.has_condition = op->getAttrOfType<mlir::BoolAttr>(kCondition).getValue();
  form.carried = op->getAttrOfType<mlir::IntegerAttr>(kCarried).getInt();
  form.most = op->getAttrOfType<mlir::IntegerAttr>(kMost).getInt();
  llvm::append_range(form.scanned_reversed, op->getAttrOfType<mlir::DenseBoolArrayAttr>(kScanned).asArrayRef());
  llvm::append_range(form.stacked_reversed, op->getAttrOfType<mlir::DenseBoolArrayAttr>(kStacked).asArrayRef());
  return form;
}

mlir::func::FuncOp LoopOp::body() {
  auto module = getOperation()->getParentOfType<mlir::ModuleOp>();
  auto name = getOperation()->getAttrOfType<mlir::FlatSymbolRefAttr>(kBody);
  return module && name ? module.lookupSymbol<mlir::func::FuncOp>(name) : mlir::func::FuncOp();
}

mlir::Value LoopOp::condition() {
  const Form form = this->form();
  return form.has_condition ? getOperation()->getOperand(form.has_trip_count ? 1 : 0) : mlir::Value();
}

mlir::OperandRange LoopOp::carried() {
  const Form form = this->form();
  return getOperation()->getOperands().slice(numLeading(form), static_cast<size_t>(form.carried));
}

mlir::OperandRange LoopOp::scanned() {
  const Form form = this->form();
  return getOperation()->getOperands().slice(numLeading(form) + static_cast<size_t>(form.carried),
                                             form.scanned_reversed.size());
}

unsigned LoopOp::firstCaptured() {
  const Form form = this->form();
  return numLeading(form) + static_cast<unsigned>(form.carried) + static_cast<unsigned>(form.scanned_reversed.size());
}

mlir::OperandRange LoopOp::captured() { return getOperation()->getOperands().drop_front(firstCaptured()); }

llvm::LogicalResult LoopOp::verify() {
  mlir::Operation* op = getOperation();
  // Attributes may come from a text file, so each is checked before form() reads it.
  const bool complete =
      op->getAttrOfType<mlir::FlatSymbolRefAttr>(kBody) && op->getAttrOfType<mlir::BoolAttr>(kTripCount) &&
      op->getAttrOfType<mlir::BoolAttr>(kCondition) && op->getAttrOfType<mlir::IntegerAttr>(kCarried) &&
      op->getAttrOfType<mlir::IntegerAttr>(kMost) && op->getAttrOfType<mlir::DenseBoolArrayAttr>(kScanned) &&
      op->getAttrOfType<mlir::DenseBoolArrayAttr>(kStacked);
  if (!complete) return op->emitOpError("lacks an attribute of its form");
  const Form form = this->form();
  if (form.carried < 0 || op->getNumOperands() < firstCaptured() ||
      op->getNumResults() != static_cast<size_t>(form.carried) + form.stacked_reversed.size() + 1)
    return op->emitOpError("has operands or results that do not match its form");
  for (auto [operand, result] : llvm::zip(carried(), op->getResults()))
    if (operand.getType() != result.getType()) return op->emitOpError("carries a value that changes its type");
  for (mlir::Value whole : scanned()) {
    auto type = mlir::dyn_cast<mlir::RankedTensorType>(whole.getType());
    if (!type || type.getRank() < 1 || type.getDimSize(0) != form.most)
      return op->emitOpError("scans a tensor whose number of parts is not its bound of iterations");
  }
  return mlir::success();
}

}  // namespace tessera::compiler
