#include "compiler/driver/model_operators.h"

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/loopnest/subscript.h"
#include "mlir/Analysis/FlatLinearValueConstraints.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/SymbolTable.h"

namespace tessera::compiler {
namespace {

using Arithmetic = v1::Intrinsic::Arithmetic;

/// Returns the value before conversions of its element type.
mlir::Value unconverted(mlir::Value value) {
  while (mlir::Operation* op = value.getDefiningOp()) {
    if (!mlir::isa<mlir::arith::ExtFOp, mlir::arith::ExtSIOp, mlir::arith::ExtUIOp, mlir::arith::TruncFOp,
                   mlir::arith::SIToFPOp, mlir::arith::UIToFPOp>(op)) {
      break;
    }
    value = op->getOperand(0);
  }
  return value;
}

/// Collects the factors of a product as positions of the body's arguments; false if another value is a factor.
bool factorsOf(mlir::Value value, mlir::Block* body, std::vector<int>& factors) {
  value = unconverted(value);
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
    // Repeated squaring doubles the number of factors each time; no instruction has that many.
    constexpr size_t kMaxFactors = 12;
    if (argument.getOwner() != body || factors.size() >= kMaxFactors) return false;
    factors.push_back(static_cast<int>(argument.getArgNumber()));
    return true;
  }
  mlir::Operation* op = value.getDefiningOp();
  if (!op || !mlir::isa<mlir::arith::MulFOp, mlir::arith::MulIOp>(op)) return false;
  return factorsOf(op->getOperand(0), body, factors) && factorsOf(op->getOperand(1), body, factors);
}

struct Body {
  Arithmetic::Form form = Arithmetic::FORM_UNSPECIFIED;
  std::vector<int> factors;
  std::string obstacle;
};

Body bodyOf(mlir::linalg::LinalgOp op) {
  mlir::Block* body = op.getBlock();
  if (op->getNumResults() != 1) return {.form = {}, .factors = {}, .obstacle = "has several results"};
  const mlir::Value result = unconverted(body->getTerminator()->getOperand(0));
  if (mlir::isa<mlir::BlockArgument>(result))
    return {.form = {}, .factors = {}, .obstacle = "moves or converts elements"};
  mlir::Operation* last = result.getDefiningOp();
  Body found;
  // The last operation combines a new term with the result so far.
  if (mlir::isa<mlir::arith::AddFOp, mlir::arith::AddIOp>(last)) found.form = Arithmetic::ADD;
  if (mlir::isa<mlir::arith::MaximumFOp, mlir::arith::MaxNumFOp, mlir::arith::MaxSIOp, mlir::arith::MaxUIOp>(last)) {
    found.form = Arithmetic::MAXIMUM;
  }
  if (mlir::isa<mlir::arith::MinimumFOp, mlir::arith::MinNumFOp, mlir::arith::MinSIOp, mlir::arith::MinUIOp>(last)) {
    found.form = Arithmetic::MINIMUM;
  }
  const mlir::BlockArgument accumulator = body->getArgument(body->getNumArguments() - 1);
  if (found.form == Arithmetic::FORM_UNSPECIFIED || op.getNumReductionLoops() == 0) {
    return {.form = {}, .factors = {}, .obstacle = "sums nothing"};
  }
  // The result so far may be either operand.
  for (int side : {0, 1}) {
    if (unconverted(last->getOperand(side)) != accumulator) continue;
    found.factors.clear();
    if (!factorsOf(last->getOperand(1 - side), body, found.factors)) continue;
    // A product of elements can only be summed; a maximum of products is no form we describe.
    if (found.factors.size() > 1) {
      if (found.form != Arithmetic::ADD) break;
      found.form = Arithmetic::MULTIPLY_ADD;
    }
    return found;
  }
  return {.form = {}, .factors = {}, .obstacle = "sums terms that are not products of elements"};
}

/// Returns one subscript as text; nothing if it is not affine (a quotient or remainder).
std::optional<std::string> subscriptText(mlir::AffineExpr expression, const mlir::AffineMap& map,
                                         const v1::OperatorNest& nest) {
  llvm::SmallVector<int64_t> flat;
  if (mlir::failed(mlir::getFlattenedAffineExpr(expression, map.getNumDims(), map.getNumSymbols(), &flat))) return {};
  // Quotients and remainders add columns to the flattened expression.
  if (flat.size() != map.getNumDims() + 1) return {};
  loopnest::Subscript subscript;
  subscript.constant = flat.back();
  std::vector<std::string> names;
  for (int d = 0; d < static_cast<int>(map.getNumDims()); ++d) {
    names.push_back(nest.loops(d).name());
    if (flat[d] != 0) subscript.terms.push_back({d, flat[d]});
  }
  return print(subscript, names);
}

bool addAccess(mlir::linalg::LinalgOp op, mlir::OpOperand& operand, const std::string& name, v1::OperatorNest& nest) {
  v1::OperatorNest::Access& access = *nest.add_accesses();
  access.set_name(name);
  access.set_dtype(dataTypeOf(mlir::getElementTypeOrSelf(operand.get().getType())));
  const mlir::AffineMap map = op.getMatchingIndexingMap(&operand);
  for (mlir::AffineExpr expression : map.getResults()) {
    const std::optional<std::string> text = subscriptText(expression, map, nest);
    if (!text) return false;
    access.add_subscripts(*text);
  }
  return true;
}

void addNests(mlir::Operation* root, int node, std::vector<v1::OperatorNest>& nests) {
  root->walk([&](mlir::linalg::LinalgOp op) {
    if (mlir::isa<mlir::linalg::FillOp>(op.getOperation())) return;
    v1::OperatorNest& nest = nests.emplace_back(nestOf(op));
    nest.set_node(node);
  });
}

}  // namespace

v1::OperatorNest nestOf(mlir::linalg::LinalgOp op) {
  v1::OperatorNest nest;
  const Body body = bodyOf(op);
  nest.set_form(body.form);
  nest.set_obstacle(body.obstacle);
  int kept = 0, summed = 0;
  for (const auto [extent, kind] : llvm::zip(op.getStaticLoopRanges(), op.getIteratorTypesArray())) {
    v1::OperatorNest::Loop& loop = *nest.add_loops();
    loop.set_reduction(kind == mlir::utils::IteratorType::reduction);
    loop.set_name(loop.reduction() ? absl::StrCat("r", summed++) : absl::StrCat("i", kept++));
    loop.set_extent(extent);
    // A run-time size leaves no number to print.
    if (mlir::ShapedType::isDynamic(extent)) nest.set_obstacle("has extents that are known after a run only");
  }
  if (!nest.obstacle().empty()) return nest;
  bool affine = addAccess(op, *op.getDpsInitOperand(0), "O", nest);
  for (size_t i = 0; i < body.factors.size() && affine; ++i) {
    affine = addAccess(op, op->getOpOperand(static_cast<unsigned>(body.factors[i])),
                       std::string(1, static_cast<char>('A' + std::min<size_t>(i, 12))), nest);
  }
  if (!affine) nest.set_obstacle("has subscripts that are not affine");
  return nest;
}

std::vector<v1::OperatorNest> operatorsOf(const ImportedModel& model) {
  std::vector<v1::OperatorNest> nests;
  for (size_t node = 0; node < model.graph.size(); ++node) {
    // Nodes of an ONNX graph say what they became.
    for (mlir::Operation* op : model.graph[node].became) addNests(op, static_cast<int>(node), nests);
  }
  if (!model.graph.empty()) return nests;
  // Other formats have no nodes, so each operation is its own node.
  auto main = mlir::dyn_cast_or_null<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model.module, "main"));
  if (!main) return nests;
  int node = 0;
  for (mlir::Operation& op : main.getBody().front().without_terminator()) {
    if (kindOf(&op) != OpKind::kCloned) addNests(&op, node++, nests);
  }
  return nests;
}

}  // namespace tessera::compiler
