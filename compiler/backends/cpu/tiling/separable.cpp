#include "compiler/backends/cpu/tiling/separable.h"

#include "compiler/backends/cpu/tiling/loop_order.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

/// A block is held in registers and on the stack; longer sides are better served by the contraction's tiles.
constexpr int64_t kLongestSide = 8;

/// The elements of a constant buffer; nothing if the buffer is not constant.
std::optional<mlir::DenseElementsAttr> constantOf(Value root) {
  auto get = root.getDefiningOp<mlir::memref::GetGlobalOp>();
  if (!get) return std::nullopt;
  auto global = mlir::SymbolTable::lookupNearestSymbolFrom<mlir::memref::GlobalOp>(get, get.getNameAttr());
  if (!global || !global.getConstant() || !global.getInitialValue()) return std::nullopt;
  auto elements = mlir::dyn_cast<mlir::DenseElementsAttr>(*global.getInitialValue());
  if (!elements || !mlir::isa<mlir::FloatType>(elements.getElementType())) return std::nullopt;
  return elements;
}

/// Reads an operand that one parallel and one reduction loop walk as a constant matrix.
std::optional<TransformSide> sideOf(const Nest& nest, const Operand& operand) {
  if (!operand.access.root) return std::nullopt;
  auto elements = constantOf(operand.access.root);
  if (!elements) return std::nullopt;
  TransformSide side;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (!varies(operand, loop)) continue;
    int& place = nest.reduction[loop] ? side.reduction : side.parallel;
    // One parallel and one reduction loop each: a matrix.
    if (place >= 0 || nest.extents[loop] > kLongestSide) return std::nullopt;
    place = loop;
  }
  if (side.reduction < 0 || side.parallel < 0) return std::nullopt;
  auto values = elements->getValues<mlir::APFloat>();
  for (int64_t row = 0; row < nest.extents[side.parallel]; ++row) {
    auto& entries = side.matrix.emplace_back();
    for (int64_t column = 0; column < nest.extents[side.reduction]; ++column)
      entries.push_back(values[operand.access.offset + row * operand.access.strides[side.parallel] +
                               column * operand.access.strides[side.reduction]]
                            .convertToDouble());
  }
  return side;
}

/// Whether the body is out + in * in * in, in any order; inputs may be widened halves.
bool multipliesAll(const Statement& statement) {
  mlir::Block& body = *statement.body();
  auto sum = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  const auto widened = llvm::count_if(body, [](mlir::Operation& op) { return llvm::isa<arith::ExtFOp>(op); });
  // Two products, one sum and the yield; any other operation would change the result.
  if (!sum || std::distance(body.begin(), body.end()) != 4 + widened) return false;
  Value accumulator = body.getArgument(3);
  Value term = sum.getLhs() == accumulator ? sum.getRhs() : sum.getLhs();
  if (sum.getLhs() != accumulator && sum.getRhs() != accumulator) return false;
  auto outer = term.getDefiningOp<arith::MulFOp>();
  if (!outer) return false;
  auto inner = outer.getLhs().getDefiningOp<arith::MulFOp>();
  Value third = outer.getRhs();
  if (!inner) {
    inner = outer.getRhs().getDefiningOp<arith::MulFOp>();
    third = outer.getLhs();
  }
  if (!inner) return false;
  llvm::SmallVector<Value> factors = {inner.getLhs(), inner.getRhs(), third};
  for (Value& factor : factors)
    if (auto wide = factor.getDefiningOp<arith::ExtFOp>()) factor = wide.getIn();
  return llvm::all_of(llvm::seq<unsigned>(0, 3),
                      [&](unsigned input) { return llvm::is_contained(factors, body.getArgument(input)); });
}

}  // namespace

std::optional<SeparableTransform> separableTransform(const Nest& nest) {
  const Statement& main = nest.statements[0];
  if (main.inputs.size() != 3 || main.outputs.size() != 1 || !multipliesAll(main)) return std::nullopt;
  if (!main.init[0] || !mlir::matchPattern(main.init[0], mlir::m_AnyZeroFloat())) return std::nullopt;
  SeparableTransform transform;
  llvm::SmallVector<TransformSide> sides;
  for (int i = 0; i < 3; ++i) {
    if (auto side = sideOf(nest, main.inputs[i])) {
      sides.push_back(std::move(*side));
    } else {
      transform.source = i;
    }
  }
  // Exactly two constant matrices, and one other operand, which is transformed.
  if (sides.size() != 2 || transform.source < 0) return std::nullopt;
  transform.left = std::move(sides[0]);
  transform.right = std::move(sides[1]);
  const auto& [left, right] = std::pair(transform.left, transform.right);
  if (left.parallel == right.parallel || left.reduction == right.reduction) return std::nullopt;
  const Operand& source = main.inputs[transform.source];
  for (int loop = 0; loop < nest.loops(); ++loop) {
    const bool side = loop == left.reduction || loop == right.reduction;
    if (nest.reduction[loop] != side) return std::nullopt;
    // The source may depend on the block and on the summed loops only.
    if ((loop == left.parallel || loop == right.parallel) && varies(source, loop)) return std::nullopt;
  }
  return transform;
}

bool planTransform(const Nest& nest, const SeparableTransform& transform, int lanes, TilePlan& plan) {
  const Access& from = nest.statements[0].inputs[transform.source].access;
  const Access& to = nest.statements[0].outputs[0].access;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    const bool side = loop == transform.left.parallel || loop == transform.right.parallel;
    if (!nest.reduction[loop] && !side && from.strides[loop] == 1 && to.strides[loop] == 1) plan.vector_loop = loop;
  }
  if (plan.vector_loop < 0) return false;
  plan.lanes = lanes;
  plan.tile[plan.vector_loop] = std::min<int64_t>(nest.extents[plan.vector_loop], lanes);
  for (const TransformSide* side : {&transform.left, &transform.right}) {
    plan.tile[side->parallel] = nest.extents[side->parallel];
    plan.tile[side->reduction] = nest.extents[side->reduction];
    plan.reductions.push_back(side->reduction);
    plan.rows *= static_cast<int>(nest.extents[side->parallel]);
  }
  plan.points = plan.order = byOutputStride(nest);
  // Blocks are visited in the order of the image, whichever side of the transform that is. Images are outside of their
  // channels there, so that a run of fewer images is a prefix of the grid.
  const int side = transform.left.parallel;
  if (llvm::all_of(plan.order, [&](int loop) { return to.strides[loop] <= to.strides[side]; }))
    sortBy(plan.order, [&](int loop) { return plan.tile[loop] == nest.extents[loop] ? 0 : -from.strides[loop]; });
  plan.orderLevels(0);
  return true;
}

}  // namespace tessera::compiler::codegen
