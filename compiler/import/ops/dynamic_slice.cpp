#include "compiler/import/ops/dynamic_slice.h"

#include <algorithm>
#include <numeric>

#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/evaluate.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

/// Resolves a run-time start or end: negative ones count from the end, and both are clamped to the dimension.
Tensor liveBound(Emitter& e, const Tensor& bound, const Tensor& count) {
  return e.elementwise(v1::DATA_TYPE_I64, {bound, count}, [](const Scalars& s, ValueRange v) {
    Value at = s.select(s.compare(Relation::kLess, v[0], s.integer(0)), s.add(v[0], v[1]), v[0]);
    return s.min(s.max(at, s.integer(0)), v[1]);
  });
}

/// Returns element `at` of an input of starts or ends, known at import or in a run.
Tensor boundAt(const Node& n, Emitter& e, int input, int64_t at) {
  const ConstantPtr& known = n.in(input).constant;
  return known ? scalarI64(known->integerAt(at)) : n.sizeAt(e, input, at);
}

constexpr const char* kWindow = "tessera.window";
constexpr int64_t kMaxElements = 64;                                // of the integers from which a bound is computed
constexpr size_t kMaxOperations = 400;                              // of the computation
constexpr int64_t kSteps = 1 << 14;                                 // scalar operations for one example
constexpr int64_t kExamples[] = {0, 3, 2'000'000'011, -1, -7, 12};  // beyond either end, and before the start

bool isSmallIntegers(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return tensor ? tensor.hasStaticShape() && tensor.getNumElements() <= kMaxElements &&
                      tensor.getElementType().isIntOrIndex()
                : type.isIntOrIndex();
}

// Evaluates integers at examples of the data-decided values that they depend on: values that are no arithmetic of a few
// integers. Walks from the values to their operands, as long as these are a few integers.
std::vector<std::vector<int64_t>> atExamplesOfData(llvm::ArrayRef<Value> values) {
  mlir::Block* body = Value(values.front()).getParentBlock();
  llvm::SetVector<Value> reached(values.begin(), values.end());
  llvm::SetVector<mlir::Operation*> operations;
  llvm::SetVector<Value> leaves;
  for (size_t i = 0; i < reached.size(); ++i) {
    mlir::Operation* op = reached[i].getDefiningOp();
    if (op && op->getBlock() != body) continue;  // inside a body of one of the operations
    if (!op && mlir::cast<mlir::BlockArgument>(reached[i]).getOwner() != body) continue;
    llvm::SetVector<Value> read;
    bool computes = op != nullptr;
    if (op) {
      op->walk([&](mlir::Operation* inner) { read.insert(inner->operand_begin(), inner->operand_end()); });
      for (Value each : read) {
        // Integers computed from large tensors are data: an example stands for them.
        const bool from_outside = each.getParentBlock() == body;
        computes &= !from_outside || isSmallIntegers(each.getType());
      }
    }
    if (!computes) {
      if (!isSmallIntegers(reached[i].getType())) return {};
      // A leaf: the examples choose its value.
      leaves.insert(reached[i]);
      continue;
    }
    operations.insert(op);
    reached.insert(read.begin(), read.end());
    if (operations.size() > kMaxOperations) return {};
  }
  std::vector<mlir::Operation*> ordered(operations.begin(), operations.end());
  std::sort(ordered.begin(), ordered.end(), [](auto* a, auto* b) { return a->isBeforeInBlock(b); });
  std::vector<std::vector<int64_t>> results;
  for (const int64_t example : kExamples) {
    mlir::OpBuilder b(body->getParentOp()->getContext());
    mlir::OwningOpRef<mlir::ModuleOp> scratch(mlir::ModuleOp::create(b.getUnknownLoc()));
    b.setInsertionPointToEnd(scratch->getBody());
    mlir::IRMapping mapping;
    // Several leaves must not be equal in an example, as a start that equals an end is a special case.
    int64_t number = example;
    for (const Value leaf : leaves) {
      auto type = mlir::dyn_cast<mlir::RankedTensorType>(leaf.getType());
      if (!type) return {};
      const unsigned width = type.getElementType().isIndex() ? 64 : type.getElementTypeBitWidth();
      const llvm::APInt bits(width, static_cast<uint64_t>(number), /*isSigned=*/true, /*implicitTrunc=*/true);
      mapping.map(
          leaf,
          mlir::arith::ConstantOp::create(b, b.getUnknownLoc(), mlir::DenseElementsAttr::get(type, bits)).getResult());
      number += 17;  // gives every value a distinct number
    }
    for (mlir::Operation* op : ordered) b.clone(*op, mapping);
    llvm::SmallVector<Value> wanted;
    for (const Value value : values) wanted.push_back(mapping.lookupOrDefault(value));
    const std::vector<v1::DataType> types(values.size(), v1::DATA_TYPE_I64);
    int64_t steps = kSteps;
    const auto constants = evaluate(*scratch->getBody(), wanted, types, steps);
    if (!constants) return {};
    std::vector<int64_t>& row = results.emplace_back();
    for (const ConstantPtr& constant : *constants) row.push_back(constant->integerAt(0));
  }
  return results;
}

/// Returns the value that a column has in all examples, if it is constant.
std::optional<int64_t> always(const std::vector<std::vector<int64_t>>& examples, size_t column) {
  if (examples.empty()) return std::nullopt;
  const int64_t first = examples.front()[column];
  const bool same =
      std::all_of(examples.begin(), examples.end(), [&](const auto& row) { return row[column] == first; });
  return same ? std::optional(first) : std::nullopt;
}

/// Whether an input is a list of run-time integers, one for each of a known number of dimensions.
bool isLiveList(const Node& n, int input) {
  const Tensor& list = n.in(input);
  return isInteger(list.dtype) && !list.sequence && list.rank() == 1 && list.extents.empty();
}

}  // namespace

void sliceDynamic(const Node& n, Emitter& e, int64_t dim, int64_t at, int64_t step, SliceRange& range) {
  const Tensor count = extentOf(n.in(0), dim);
  const Tensor start = liveBound(e, boundAt(n, e, 1, at), count), end = liveBound(e, boundAt(n, e, 2, at), count);
  // Ends before starts give an empty range, not a negative size.
  const Tensor size = e.elementwise(v1::DATA_TYPE_I64, {start, end}, [&](const Scalars& s, ValueRange v) {
    Value left = s.max(s.sub(v[1], v[0]), s.integer(0));
    return step == 1 ? left : s.div(s.add(left, s.integer(step - 1)), s.integer(step));
  });
  // Elements come from `start` on, which is known only at run time; the shape has the bound.
  range.offsets[dim] = 0;
  range.strides[dim] = step;
  range.extents.erase(dim);
  if (range.sizes[dim] == 0) return;
  range.sizes[dim] = (range.sizes[dim] + step - 1) / step;
  range.starts[dim] = e.value(start);
  range.extents[dim] = e.value(size);
  // A window has the length of its range at any position, so later operators may use the constant.
  if (const auto most = n.extentBoundOf(size); most && *most >= 1) range.sizes[dim] = std::min(range.sizes[dim], *most);
  const auto bounds = n.bounds(size);
  if (bounds && bounds->first == bounds->second && bounds->first == range.sizes[dim]) range.extents.erase(dim);
  // Sizes that depend on ranges alone need no more.
  if (bounds) return;
  // A window at a data-decided position: its length is end - start, if it is entirely inside.
  const Tensor length = e.elementwise(v1::DATA_TYPE_I64, {boundAt(n, e, 2, at), boundAt(n, e, 1, at)},
                                      [](const Scalars& s, ValueRange v) { return s.sub(v[0], v[1]); });
  const auto examples = atExamplesOfData({e.value(size), e.value(length)});
  const auto whole = always(examples, 0), behind = always(examples, 1);
  const int64_t most = range.sizes[dim];
  // All examples give one size: the window is whole at every position.
  if (whole && *whole >= 1 && *whole <= most) {
    range.sizes[dim] = *whole;
    range.extents.erase(dim);
  } else if (behind && *behind >= 1 && (*behind + step - 1) / step <= most) {
    // The size is shorter only where the window leaves the tensor; the attribute says so, see isWindow().
    range.sizes[dim] = (*behind + step - 1) / step;
    range.extents[dim].getDefiningOp()->setAttr(kWindow, mlir::UnitAttr::get(e.b.getContext()));
  }
}

bool isWindow(Value extent) {
  mlir::Operation* op = extent.getDefiningOp();
  return op && op->hasAttr(kWindow);
}

void removeWindowMarks(mlir::Operation* function) {
  function->walk([](mlir::Operation* op) { op->removeAttr(kWindow); });
}

std::vector<Tensor> withoutWindowExtents(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> whole = inputs;
  for (Tensor& tensor : whole)
    std::erase_if(tensor.extents, [](const auto& extent) { return isWindow(extent.second); });
  return whole;
}

absl::StatusOr<SliceRange> readDynamicRange(Node& n, Emitter& e, const absl::Status& refused) {
  const Tensor& x = n.in(0);
  if (!isLiveList(n, 1) || !isLiveList(n, 2) || n.in(1).shape != n.in(2).shape) return refused;
  const int64_t count = n.in(1).shape[0];
  std::vector<int64_t> axes(count), steps(count, 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) {
    TESSERA_ASSIGN_OR_RETURN(axes, n.constantIntegers(3, "axes"));
    // Starts and ends list the first dimensions, if axes are absent.
  }
  if (n.has(4)) {
    TESSERA_ASSIGN_OR_RETURN(steps, n.constantIntegers(4, "steps"));
  }
  TESSERA_ASSIGN_OR_RETURN(axes, n.normalizeAxes(axes, x.rank(), "axes"));
  const auto lengths = {axes.size(), steps.size()};
  const bool forwards = std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step >= 1; });
  if (!std::all_of(lengths.begin(), lengths.end(), [&](size_t l) { return l == static_cast<size_t>(count); }) ||
      !forwards)
    return refused;
  SliceRange range{std::vector<int64_t>(x.rank(), 0), x.shape, std::vector<int64_t>(x.rank(), 1), x.extents, {}};
  for (int64_t i = 0; i < count; ++i) sliceDynamic(n, e, axes[i], i, std::min<int64_t>(steps[i], INT32_MAX), range);
  return range;
}

}  // namespace tessera::compiler
