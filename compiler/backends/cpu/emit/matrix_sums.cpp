#include "compiler/backends/cpu/emit/matrix_sums.h"

#include <map>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler::codegen {

using mlir::Value;

namespace {

/// Whether input `input` has one element for all lanes of a vector.
bool isUniform(const Nest& nest, const TilePlan& plan, int input) {
  return nest.statements[0].inputs[input].access.strides[plan.vector_loop] == 0;
}

}  // namespace

bool MatrixSums::areUsedBy(const Nest& nest, const TilePlan& plan) {
  const auto& step = nest.statements[0].step;
  return step && step->matrices() && plan.lanes == step->lanes() && plan.vector_loop >= 0 && !plan.horizontal &&
         isUniform(nest, plan, 0) != isUniform(nest, plan, 1);
}

MatrixSums::MatrixSums(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, TileMemory& memory,
                       const std::vector<Point>& points)
    : b_(builder),
      product_(*nest.statements[0].step->matrices()),
      rows_from_(isUniform(nest, plan, 0) ? 0 : 1),
      lanes_(plan.lanes),
      memory_(memory),
      points_(points) {
  const auto most = static_cast<size_t>(product_.shape(rows_from_).rows);
  std::map<std::pair<int64_t, int>, size_t> open;  // by the columns' place: the last element of rows_
  for (size_t p = 0; p < points.size(); ++p) {
    const std::pair place(memory.offsetAt(memory.access(1 - rows_from_), points[p]), points[p].active);
    const auto [found, is_new] = open.try_emplace(place, rows_.size());
    if (is_new || rows_[found->second].points.size() == most) {
      found->second = rows_.size();
      rows_.emplace_back();
    }
    rows_[found->second].points.push_back(p);
  }
}

MatrixSums::Values MatrixSums::pack(llvm::ArrayRef<Value> sums) const {
  Values registers;
  for (const Rows& rows : rows_) {
    Values given;
    for (const size_t point : rows.points) given.push_back(sums[point]);
    registers.append(product_.pack(b_, given, rows_from_));
  }
  return registers;
}

MatrixSums::Values MatrixSums::unpack(llvm::ArrayRef<Value> registers) const {
  Values sums(points_.size());
  const size_t each = registers.size() / rows_.size();
  for (auto [number, rows] : llvm::enumerate(rows_)) {
    const Values given =
        product_.unpack(b_, registers.slice(number * each, each), static_cast<int>(rows.points.size()), rows_from_);
    for (auto [point, sum] : llvm::zip_equal(rows.points, given)) sums[point] = sum;
  }
  return sums;
}

void MatrixSums::addStep(llvm::MutableArrayRef<Value> registers) {
  Step step;
  for (const Rows& rows : rows_) {
    step.columns.push_back(memory_.load(1 - rows_from_, points_[rows.points[0]], lanes_));
    auto& offsets = step.offsets.emplace_back();
    for (const size_t point : rows.points)
      offsets.push_back(memory_.offsetAt(memory_.access(rows_from_), points_[point]));
  }
  pending_.push_back(std::move(step));
  if (static_cast<int>(pending_.size()) == product_.shape(rows_from_).steps) flush(registers);
}

/// The elements of all pending steps in one row: loaded together where they follow each other in memory.
Value MatrixSums::row(int64_t rows, int64_t point) const {
  const mlir::Location loc = b_.getUnknownLoc();
  const mlir::Type element = memory_.access(rows_from_).element;
  const auto steps = static_cast<int64_t>(pending_.size());
  const auto type = mlir::VectorType::get({steps}, element);
  const int32_t alignment = static_cast<int32_t>(element.getIntOrFloatBitWidth() / 8);
  const auto offset = [&](int64_t step) { return pending_[step].offsets[rows][point]; };
  const auto address = [&](int64_t step) { return memory_.at(memory_.pointer(rows_from_), element, offset(step)); };
  bool adjacent = true;
  for (int64_t step = 1; step < steps; ++step) adjacent = adjacent && offset(step) == offset(0) + step;
  if (adjacent) return mlir::LLVM::LoadOp::create(b_, loc, type, address(0), alignment);
  Value elements = mlir::arith::ConstantOp::create(b_, loc, b_.getZeroAttr(type));
  for (int64_t step = 0; step < steps; ++step)
    elements = mlir::vector::InsertOp::create(
        b_, loc, mlir::LLVM::LoadOp::create(b_, loc, element, address(step), alignment), elements, step);
  return elements;
}

void MatrixSums::flush(llvm::MutableArrayRef<Value> registers) {
  if (pending_.empty()) return;
  const size_t each = registers.size() / rows_.size();
  std::map<llvm::SmallVector<int64_t>, Value> loaded;  // by the offsets of all steps
  for (auto [number, rows] : llvm::enumerate(rows_)) {
    Values given, columns;
    for (size_t point = 0; point < rows.points.size(); ++point) {
      llvm::SmallVector<int64_t> offsets;
      for (const Step& step : pending_) offsets.push_back(step.offsets[number][point]);
      Value& value = loaded[offsets];
      if (!value) value = row(static_cast<int64_t>(number), static_cast<int64_t>(point));
      given.push_back(value);
    }
    for (const Step& step : pending_) columns.push_back(step.columns[number]);
    product_.multiply(b_, given, columns, rows_from_, registers.slice(number * each, each));
  }
  pending_.clear();
}

}  // namespace tessera::compiler::codegen
