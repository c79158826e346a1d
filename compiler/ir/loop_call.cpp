#include "compiler/ir/loop_call.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler {
namespace {

constexpr char kLoop[] = "tessera.loop";

unsigned leading(const LoopCall::Form& form) {
  return (form.has_trip_count ? 1u : 0u) + (form.has_condition ? 1u : 0u);
}

}  // namespace

std::optional<LoopCall> LoopCall::of(mlir::Operation* op) {
  auto call = mlir::dyn_cast_or_null<mlir::func::CallOp>(op);
  auto loop = call ? call->getAttrOfType<mlir::DictionaryAttr>(kLoop) : mlir::DictionaryAttr();
  if (!loop) return std::nullopt;
  Form form;
  const auto integer = [&](llvm::StringRef name) {
    auto value = loop.getAs<mlir::IntegerAttr>(name);
    return value ? value.getInt() : 0;
  };
  form.has_trip_count = integer("trip_count") != 0;
  form.has_condition = integer("condition") != 0;
  form.carried = integer("carried");
  form.most = integer("most");
  for (auto [name, list] : {std::pair<llvm::StringRef, llvm::SmallVector<bool>*>("scanned", &form.scanned_reversed),
                            {"stacked", &form.stacked_reversed}}) {
    if (auto flags = loop.getAs<mlir::DenseBoolArrayAttr>(name))
      list->assign(flags.asArrayRef().begin(), flags.asArrayRef().end());
  }
  return LoopCall(call, std::move(form));
}

mlir::func::CallOp LoopCall::create(mlir::OpBuilder& builder, mlir::Location location, mlir::func::FuncOp body,
                                    const Form& form, mlir::ValueRange operands) {
  const auto with_most = [&](mlir::Type part) -> mlir::Type {
    auto type = mlir::cast<mlir::RankedTensorType>(part);
    llvm::SmallVector<int64_t> shape = {form.most};
    llvm::append_range(shape, type.getShape());
    return mlir::RankedTensorType::get(shape, type.getElementType());
  };
  llvm::SmallVector<mlir::Type> results;
  for (auto [index, type] : llvm::enumerate(body.getResultTypes().drop_front(form.has_condition ? 1 : 0)))
    results.push_back(static_cast<int64_t>(index) < form.carried ? type : with_most(type));
  results.push_back(mlir::RankedTensorType::get({}, builder.getI64Type()));
  auto call = mlir::func::CallOp::create(builder, location, body.getSymName(), results, operands);
  const auto named = [&](llvm::StringRef name, mlir::Attribute value) { return builder.getNamedAttr(name, value); };
  call->setAttr(kLoop,
                builder.getDictionaryAttr({named("trip_count", builder.getI64IntegerAttr(form.has_trip_count)),
                                           named("condition", builder.getI64IntegerAttr(form.has_condition)),
                                           named("carried", builder.getI64IntegerAttr(form.carried)),
                                           named("most", builder.getI64IntegerAttr(form.most)),
                                           named("scanned", builder.getDenseBoolArrayAttr(form.scanned_reversed)),
                                           named("stacked", builder.getDenseBoolArrayAttr(form.stacked_reversed))}));
  return call;
}

mlir::func::FuncOp LoopCall::body() const {
  auto module = call_->getParentOfType<mlir::ModuleOp>();
  return module ? module.lookupSymbol<mlir::func::FuncOp>(call_.getCallee()) : mlir::func::FuncOp();
}

mlir::OperandRange LoopCall::operands(int64_t first, int64_t count) const {
  return call_.getOperands().slice(leading(form_) + static_cast<unsigned>(first), static_cast<unsigned>(count));
}

unsigned LoopCall::firstCaptured() const {
  return leading(form_) + static_cast<unsigned>(form_.carried + numScanned());
}

mlir::OperandRange LoopCall::captured() const { return call_.getOperands().drop_front(firstCaptured()); }

}  // namespace tessera::compiler
