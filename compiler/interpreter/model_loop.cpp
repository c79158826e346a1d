#include "compiler/interpreter/model_loop.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/interpreter/element.h"
#include "compiler/ir/weight_attribute.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinOps.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::interpreter {
namespace {

constexpr char kLoop[] = "tessera.loop";

/// Attributes of the operation; a missing one is 0 or empty.
int64_t integerOf(mlir::Operation* op, llvm::StringRef name) {
  auto value = op->getAttrOfType<mlir::IntegerAttr>(name);
  return value ? value.getValue().getSExtValue() : 0;
}
llvm::SmallVector<bool> flagsOf(mlir::Operation* op, llvm::StringRef name) {
  auto values = op->getAttrOfType<mlir::DenseBoolArrayAttr>(name);
  return values ? llvm::SmallVector<bool>(values.asArrayRef()) : llvm::SmallVector<bool>();
}

absl::Status misfit(const std::string& what) {
  return absl::InternalError(absl::StrCat("a loop and its body do not fit each other: ", what));
}

bool isScalar(mlir::Type type, unsigned bits) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 && tensor.getElementType().isInteger(bits);
}

bool isValue(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() && isElement(tensor.getElementType());
}

/// The function that a loop calls; null if `op` is not a loop, or the module lacks the function.
mlir::func::FuncOp bodyOf(mlir::Operation* op) {
  auto name = ModelLoop::isLoop(op) ? op->getAttrOfType<mlir::FlatSymbolRefAttr>("body") : mlir::FlatSymbolRefAttr();
  auto module = op->getParentOfType<mlir::ModuleOp>();
  return name && module ? module.lookupSymbol<mlir::func::FuncOp>(name.getValue()) : mlir::func::FuncOp();
}

/// Appends the body of a loop and the bodies of nested loops. Returns false if one calls itself; `around`: the bodies
/// being visited.
bool addBodies(mlir::Operation* op, llvm::SmallVector<mlir::func::FuncOp>& around,
               llvm::SmallVector<mlir::func::FuncOp>& bodies) {
  mlir::func::FuncOp body = bodyOf(op);
  if (llvm::is_contained(around, body)) return false;
  if (!body || llvm::is_contained(bodies, body)) return true;
  bodies.push_back(body);
  around.push_back(body);
  const bool ends =
      !body.walk([&](mlir::Operation* each) {
             return addBodies(each, around, bodies) ? mlir::WalkResult::advance() : mlir::WalkResult::interrupt();
           })
           .wasInterrupted();
  around.pop_back();
  return ends;
}

/// Whether `whole` consists of `most` parts of type `part`.
bool holdsParts(mlir::Type whole, mlir::Type part, int64_t most) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(part);
  llvm::SmallVector<int64_t> shape = {most};
  shape.append(tensor.getShape().begin(), tensor.getShape().end());
  return most >= 0 && whole == mlir::RankedTensorType::get(shape, tensor.getElementType());
}

int64_t elementsOf(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::ShapedType>(type);
  return tensor && tensor.hasStaticShape() ? tensor.getNumElements() : 0;
}

/// Checks the numbers of operands, arguments and results; checkTypes() comes after it.
absl::Status checkCounts(const ModelLoop& loop, int64_t carried) {
  const auto scanned = static_cast<int64_t>(loop.scanned.size()), stacked = static_cast<int64_t>(loop.stacked.size());
  mlir::func::FuncOp body = loop.body;
  if (carried < 0 || loop.most < -1) return misfit("a negative count");
  if (loop.most < 0 && scanned + stacked > 0) return misfit("tensors of parts without a bound of the iterations");
  const int64_t captured = static_cast<int64_t>(loop.op->getNumOperands()) - loop.firstCarried() - carried - scanned;
  if (captured < 0) return misfit("operands are missing");
  if (1 + carried + scanned + captured + static_cast<int64_t>(loop.weights.size()) != body.getNumArguments())
    return misfit(absl::StrCat("the body has ", body.getNumArguments(), " arguments"));
  if ((loop.has_condition ? 1 : 0) + carried + stacked != body.getNumResults())
    return misfit(absl::StrCat("the body has ", body.getNumResults(), " results"));
  if (carried + stacked + 1 != loop.op->getNumResults())
    return misfit(absl::StrCat("the loop has ", loop.op->getNumResults(), " results"));
  return absl::OkStatus();
}

absl::Status checkTypes(const ModelLoop& loop) {
  mlir::func::FuncOp body = loop.body;
  const llvm::SmallVector<mlir::Type> operands(loop.op->getOperandTypes()), results(loop.op->getResultTypes());
  const llvm::ArrayRef<mlir::Type> arguments = body.getArgumentTypes(),
                                   returned = body.getResultTypes().drop_front(loop.has_condition ? 1 : 0);
  if (!llvm::all_of(operands, isValue) || !llvm::all_of(results, isValue) || !llvm::all_of(arguments, isValue) ||
      !llvm::all_of(body.getResultTypes(), isValue)) {
    return misfit("a value that is no tensor of a static shape");
  }
  if (!isScalar(arguments[0], 64) || !isScalar(results.back(), 64)) return misfit("the type of a number of iterations");
  if (loop.has_trip_count && !isScalar(operands[0], 64)) return misfit("the trip count's type");
  if (loop.has_condition &&
      (!isScalar(operands[loop.firstCarried() - 1], 8) || !isScalar(body.getResultTypes()[0], 8))) {
    return misfit("the condition's type");
  }
  for (unsigned c = 0; c < loop.carried; ++c) {
    const mlir::Type type = operands[loop.firstCarried() + c];
    if (type != arguments[1 + c] || type != returned[c] || type != results[c])
      return misfit(absl::StrCat("the type of carried value ", c));
  }
  for (unsigned s = 0; s < loop.scanned.size(); ++s) {
    if (!holdsParts(operands[loop.firstScanned() + s], arguments[1 + loop.carried + s], loop.most))
      return misfit(absl::StrCat("the type of scanned tensor ", s));
  }
  for (unsigned s = 0; s < loop.stacked.size(); ++s) {
    if (!holdsParts(results[loop.carried + s], returned[loop.carried + s], loop.most))
      return misfit(absl::StrCat("the type of stacked tensor ", s));
  }
  for (unsigned c = 0; c < loop.captured; ++c) {
    if (operands[loop.firstCaptured() + c] != arguments[1 + loop.carried + loop.scanned.size() + c])
      return misfit(absl::StrCat("the type of captured value ", c));
  }
  return absl::OkStatus();
}

}  // namespace

bool ModelLoop::isLoop(mlir::Operation* op) { return op->getName().getStringRef() == kLoop; }

absl::StatusOr<ModelLoop> ModelLoop::of(mlir::Operation* op) {
  ModelLoop loop;
  loop.op = op;
  loop.body = bodyOf(op);
  if (!loop.body || !loop.body.getBody().hasOneBlock()) return misfit("the module has no such body of one block");
  llvm::SmallVector<mlir::func::FuncOp> around;
  if (!addBodies(op, around, loop.bodies)) return misfit("a body calls itself");
  loop.has_trip_count = integerOf(op, "trip_count") != 0;
  loop.has_condition = integerOf(op, "condition") != 0;
  loop.most = integerOf(op, "most");
  loop.scanned = flagsOf(op, "scanned");
  loop.stacked = flagsOf(op, "stacked");
  for (unsigned a = 0; a < loop.body.getNumArguments(); ++a) {
    if (auto weight = loop.body.getArgAttrOfType<mlir::IntegerAttr>(a, kWeightAttribute)) {
      loop.weights.push_back(weight.getInt());
    } else if (!loop.weights.empty()) {
      return misfit("an argument behind the weights");
    }
  }
  const int64_t carried = integerOf(op, "carried");
  TESSERA_RETURN_IF_ERROR(checkCounts(loop, carried));
  loop.carried = static_cast<unsigned>(carried);
  loop.captured = op->getNumOperands() - loop.firstCaptured();
  TESSERA_RETURN_IF_ERROR(checkTypes(loop));
  return loop;
}

std::optional<int64_t> ModelLoop::iterations() const {
  if (has_condition) return std::nullopt;
  const int64_t bound = most < 0 ? std::numeric_limits<int64_t>::max() : most;
  if (!has_trip_count) return bound;
  auto constant = op->getOperand(0).getDefiningOp<mlir::arith::ConstantOp>();
  auto value =
      constant ? llvm::dyn_cast<mlir::DenseIntElementsAttr>(constant.getValue()) : mlir::DenseIntElementsAttr();
  if (!value) return std::nullopt;
  return std::clamp<int64_t>((*value.begin()).getSExtValue(), 0, bound);
}

llvm::ArrayRef<mlir::Type> ModelLoop::typesOfWeights() const {
  return mlir::func::FuncOp(body).getArgumentTypes().take_back(weights.size());
}

int64_t ModelLoop::movedElements() const {
  mlir::func::FuncOp function = body;
  int64_t elements = 0;
  for (mlir::Type part : function.getArgumentTypes().slice(1 + carried, scanned.size())) elements += elementsOf(part);
  for (mlir::Type part : function.getResultTypes().take_back(stacked.size())) elements += elementsOf(part);
  function.walk([&](mlir::Operation* each) {
    if (llvm::isa<mlir::linalg::LinalgOp>(each) || each->getParentOfType<mlir::linalg::LinalgOp>()) return;
    for (mlir::Type type : each->getResultTypes()) elements += elementsOf(type);
  });
  return elements;
}

}  // namespace tessera::compiler::interpreter
