#include "compiler/backends/cpu/nest.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace tessera::compiler::codegen {
namespace {

using mlir::AffineBinaryOpExpr;
using mlir::AffineConstantExpr;
using mlir::AffineDimExpr;
using mlir::AffineExpr;
using mlir::AffineExprKind;

/// Adds factor * expr to (offset, strides); returns false when expr is not linear in the dimensions.
bool addLinear(AffineExpr expr, int64_t factor, int64_t& offset, llvm::SmallVectorImpl<int64_t>& strides) {
  if (auto dim = llvm::dyn_cast<AffineDimExpr>(expr)) {
    strides[dim.getPosition()] += factor;
    return true;
  }
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(expr)) {
    offset += factor * constant.getValue();
    return true;
  }
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary) return false;
  if (expr.getKind() == AffineExprKind::Add)
    return addLinear(binary.getLHS(), factor, offset, strides) && addLinear(binary.getRHS(), factor, offset, strides);
  if (expr.getKind() == AffineExprKind::Mul)
    if (auto constant = llvm::dyn_cast<AffineConstantExpr>(binary.getRHS()))
      return addLinear(binary.getLHS(), factor * constant.getValue(), offset, strides);
  return false;
}

std::optional<Operand> operandOf(mlir::linalg::LinalgOp op, mlir::OpOperand& use, int loops) {
  Operand operand;
  auto type = llvm::dyn_cast<mlir::MemRefType>(use.get().getType());
  if (!type) {
    if (!use.get().getType().isIntOrIndexOrFloat()) return std::nullopt;
    operand.scalar = use.get();
    return operand;
  }
  llvm::SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (!type.hasStaticShape() || mlir::failed(type.getStridesAndOffset(strides, offset)) ||
      mlir::ShapedType::isDynamic(offset) || llvm::any_of(strides, mlir::ShapedType::isDynamic))
    return std::nullopt;
  operand.access.root = rootOf(use.get());
  operand.access.element = type.getElementType();
  operand.access.offset = offset;
  operand.access.strides.assign(loops, 0);
  const mlir::AffineMap map = op.getMatchingIndexingMap(&use);
  // Subscripts times the buffer's strides: the access becomes one linear function of the loops.
  for (auto [expr, stride] : llvm::zip_equal(map.getResults(), strides))
    if (!addLinear(expr, stride, operand.access.offset, operand.access.strides)) return std::nullopt;
  return operand;
}

bool readsIndex(const Nest& nest) {
  for (const Statement& statement : nest.statements)
    if (statement.body()->walk([](mlir::linalg::IndexOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted())
      return true;
  return false;
}

template <typename Fn>
void forEachAccess(Nest& nest, Fn fn) {
  for (Statement& statement : nest.statements) {
    for (Operand& operand : statement.inputs)
      if (operand.access.root) fn(operand.access);
    for (Operand& operand : statement.outputs) fn(operand.access);
  }
}

void eraseLoop(Nest& nest, int loop) {
  nest.extents.erase(nest.extents.begin() + loop);
  nest.reduction.erase(nest.reduction.begin() + loop);
  forEachAccess(nest, [&](Access& access) { access.strides.erase(access.strides.begin() + loop); });
  for (Statement& statement : nest.statements)
    for (auto& weights : statement.index_weights) weights.erase(weights.begin() + loop);
}

/// Whether loops `outer` and `inner` are walked as one loop by every operand.
bool mergeable(Nest& nest, int outer, int inner) {
  // Two loops are one if each step of the outer loop continues where the inner one ends, in every operand.
  if (nest.reduction[outer] != nest.reduction[inner]) return false;
  bool ok = true;
  forEachAccess(nest,
                [&](Access& access) { ok &= access.strides[outer] == access.strides[inner] * nest.extents[inner]; });
  return ok;
}

}  // namespace

mlir::Value rootOf(mlir::Value memref) {
  while (auto* op = memref.getDefiningOp()) {
    auto view = llvm::dyn_cast<mlir::ViewLikeOpInterface>(op);
    if (!view) break;
    memref = view.getViewSource();
  }
  return memref;
}

std::optional<Nest> nestOf(mlir::linalg::LinalgOp op) {
  Nest nest;
  for (int64_t extent : op.getStaticLoopRanges()) {
    if (mlir::ShapedType::isDynamic(extent) || extent <= 0) return std::nullopt;
    nest.extents.push_back(extent);
  }
  for (mlir::utils::IteratorType type : op.getIteratorTypesArray())
    nest.reduction.push_back(type != mlir::utils::IteratorType::parallel);
  Statement statement;
  statement.op = op;
  for (mlir::OpOperand* use : op.getDpsInputOperands()) {
    auto operand = operandOf(op, *use, nest.loops());
    if (!operand) return std::nullopt;
    statement.inputs.push_back(*operand);
  }
  for (mlir::OpOperand& use : op.getDpsInitsMutable()) {
    auto operand = operandOf(op, use, nest.loops());
    if (!operand || !operand->access.root) return std::nullopt;
    statement.outputs.push_back(*operand);
    statement.init.push_back(nullptr);
    statement.stored.push_back(true);
  }
  // A loop of one iteration has no effect on addresses, whatever its stride.
  for (auto* operands : {&statement.inputs, &statement.outputs})
    for (Operand& operand : *operands)
      for (int loop = 0; operand.access.root && loop < nest.loops(); ++loop)
        if (nest.extents[loop] == 1) operand.access.strides[loop] = 0;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    statement.index_weights.emplace_back(nest.loops(), 0);
    statement.index_weights.back()[loop] = 1;
  }
  // A parallel loop that an output does not walk would store one element many times; loops of extent 1 are harmless.
  for (const Operand& output : statement.outputs)
    for (int loop = 0; loop < nest.loops(); ++loop) {
      const bool walked = output.access.strides[loop] != 0;
      if (nest.extents[loop] > 1 && walked == nest.reduction[loop]) return std::nullopt;
    }
  nest.statements.push_back(std::move(statement));
  return nest;
}

void mergeLoops(Nest& nest) {
  for (int loop = nest.loops() - 1; loop >= 0; --loop)
    if (nest.extents[loop] == 1) eraseLoop(nest, loop);
  // Merged loops have no separate index values.
  if (readsIndex(nest)) return;
  for (bool changed = true; changed;) {
    changed = false;
    for (int outer = 0; outer < nest.loops() && !changed; ++outer)
      for (int inner = 0; inner < nest.loops() && !changed; ++inner)
        if (outer != inner && mergeable(nest, outer, inner)) {
          // The inner strides stay valid for the merged loop.
          nest.extents[inner] *= nest.extents[outer];
          eraseLoop(nest, outer);
          changed = true;
        }
  }
}

void splitLoop(Nest& nest, int loop, int64_t inner) {
  nest.extents.insert(nest.extents.begin() + loop, nest.extents[loop] / inner);
  nest.extents[loop + 1] = inner;
  nest.reduction.insert(nest.reduction.begin() + loop, nest.reduction[loop]);
  forEachAccess(nest, [&](Access& access) {
    access.strides.insert(access.strides.begin() + loop, access.strides[loop] * inner);
  });
  for (Statement& statement : nest.statements)
    for (auto& weights : statement.index_weights) weights.insert(weights.begin() + loop, weights[loop] * inner);
}

bool appendFollower(Nest& nest, const Nest& follower) {
  // A reduction needs all points of its producer, not only the current one.
  if (follower.hasReduction()) return false;
  const Statement& added = follower.statements.front();

  // For each input, the register value that it reads, if any; all of them must have the same access.
  auto registerOf = [&](mlir::Value root) -> std::optional<RegisterRef> {
    // The last statement that writes the buffer has its current value.
    for (int s = static_cast<int>(nest.statements.size()) - 1; s >= 0; --s)
      for (int o = 0; o < static_cast<int>(nest.statements[s].outputs.size()); ++o)
        if (nest.statements[s].outputs[o].access.root == root) return RegisterRef{s, o};
    return std::nullopt;
  };
  auto accessOf = [&](RegisterRef ref) -> const Access& {
    return nest.statements[ref.statement].outputs[ref.output].access;
  };

  // weight[f][l]: the follower's loop f is sum_l weight * loop l of the nest, found by matching strides of the shared
  // buffer from the innermost loop outwards. One loop of the follower may cover several loops of the nest.
  llvm::SmallVector<llvm::SmallVector<int64_t>> weight(follower.loops(), llvm::SmallVector<int64_t>(nest.loops(), 0));
  bool matched = false;
  for (const Operand& input : added.inputs) {
    if (!input.access.root || matched) continue;
    auto ref = registerOf(input.access.root);
    if (!ref) continue;
    const Access& produced = accessOf(*ref);
    if (produced.offset != input.access.offset) return false;
    llvm::SmallVector<bool> used(nest.loops(), false);
    for (int f = 0; f < follower.loops(); ++f) {
      int64_t covered = 1;
      // Matches from the smallest stride upwards: the next loop must begin where the loops matched so far end.
      while (covered < follower.extents[f]) {
        int found = -1;
        for (int l = 0; l < nest.loops(); ++l)
          if (!used[l] && !nest.reduction[l] && nest.extents[l] > 1 &&
              produced.strides[l] == input.access.strides[f] * covered && produced.strides[l] != 0)
            found = l;
        if (found < 0) return false;
        used[found] = true;
        weight[f][found] = covered;
        covered *= nest.extents[found];
      }
      if (covered != follower.extents[f]) return false;
    }
    for (int l = 0; l < nest.loops(); ++l)
      // A loop of the nest without a counterpart would run the follower several times for one element.
      if (!used[l] && !nest.reduction[l] && nest.extents[l] > 1) return false;
    matched = true;
  }
  if (!matched) return false;

  auto remap = [&](const Access& access) {
    Access result = access;
    result.strides.assign(nest.loops(), 0);
    for (int f = 0; f < follower.loops(); ++f)
      for (int l = 0; l < nest.loops(); ++l) result.strides[l] += access.strides[f] * weight[f][l];
    return result;
  };
  Statement statement = added;
  for (Operand& input : statement.inputs) {
    if (!input.access.root) continue;
    auto ref = registerOf(input.access.root);
    input.access = remap(input.access);
    if (!ref) continue;
    if (!(input.access == accessOf(*ref))) return false;  // reads another point's element
    input.from = ref;
  }
  for (auto [o, output] : llvm::enumerate(statement.outputs)) {
    auto ref = registerOf(output.access.root);
    output.access = remap(output.access);
    // Overwriting a buffer of the nest is allowed only element for element.
    if (ref && !(output.access == accessOf(*ref))) return false;
    const bool reads_old = !statement.body()->getArgument(statement.inputs.size() + o).use_empty();
    if (reads_old && !statement.init[o] && ref) return false;
    for (const Statement& earlier : nest.statements)
      for (const Operand& input : earlier.inputs)
        if (input.access.root == output.access.root && !input.from &&
            (nest.hasReduction() || !(input.access == output.access)))
          return false;
  }
  for (auto& weights : statement.index_weights) {
    llvm::SmallVector<int64_t> remapped(nest.loops(), 0);
    for (int f = 0; f < follower.loops(); ++f)
      for (int l = 0; l < nest.loops(); ++l) remapped[l] += weights[f] * weight[f][l];
    weights = remapped;
  }
  nest.statements.push_back(std::move(statement));
  return true;
}

}  // namespace tessera::compiler::codegen
