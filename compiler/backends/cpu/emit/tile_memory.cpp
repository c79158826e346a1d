#include "compiler/backends/cpu/emit/tile_memory.h"

#include "compiler/backends/cpu/emit/strided_load.h"
#include "compiler/backends/cpu/emit/transpose.h"
#include "compiler/backends/cpu/tiling/tile_cost.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler::codegen {
namespace {

namespace LLVM = mlir::LLVM;
namespace arith = mlir::arith;
using mlir::Value;
using Values = llvm::SmallVector<Value>;

int32_t alignmentOf(mlir::Type memory) { return std::max<int32_t>(1, memory.getIntOrFloatBitWidth() / 8); }

}  // namespace

TileMemory::TileMemory(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const Tile& tile)
    : b_(builder), loc_(builder.getUnknownLoc()), nest_(nest), plan_(plan), tile_(tile), offset_(nest.loops(), 0) {
  for (const Slot& slot : tile.slots) pointers_.push_back(slot.pointer);
}

Value TileMemory::address(Value pointer, mlir::Type element, int64_t offset) {
  if (offset == 0) return pointer;
  return LLVM::GEPOp::create(b_, loc_, pointer.getType(), element, pointer,
                             llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)},
                             LLVM::GEPNoWrapFlags::inbounds);
}

/// Constant offsets reach 2^31 elements from a pointer; farther addresses use an index register.
Value TileMemory::at(Value pointer, mlir::Type element, int64_t offset) {
  if (offset == static_cast<int32_t>(offset)) return address(pointer, element, offset);
  return advance(b_, pointer, element, offset, arith::ConstantIntOp::create(b_, loc_, 1, 64));
}

Value TileMemory::mask(int lanes, int active) {
  llvm::SmallVector<bool> bits(lanes, false);
  std::fill(bits.begin(), bits.begin() + active, true);
  auto type = mlir::VectorType::get({lanes}, b_.getI1Type());
  return arith::ConstantOp::create(b_, loc_, mlir::DenseElementsAttr::get(type, llvm::ArrayRef<bool>(bits)));
}

// i1 takes a byte in memory and index takes 64 bits (memoryType): converts a loaded value to its type in registers.
Value TileMemory::fromMemory(Value loaded, mlir::Type element) {
  if (element.isIndex()) {
    mlir::Type type = element;
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(loaded.getType())) type = vector.clone(element);
    return arith::IndexCastOp::create(b_, loc_, type, loaded);
  }
  if (!element.isInteger(1)) return loaded;
  mlir::Type type = element;
  if (auto vector = llvm::dyn_cast<mlir::VectorType>(loaded.getType())) type = vector.clone(element);
  return arith::TruncIOp::create(b_, loc_, type, loaded);
}

int64_t TileMemory::offsetAt(const Access& access, const Point& point) const {
  int64_t offset = 0;
  for (int loop = 0; loop < nest_.loops(); ++loop) offset += access.strides[loop] * (point.at[loop] + offset_[loop]);
  return offset;
}

Value TileMemory::load(int slot, const Point& point, int lanes) {
  const Access& access = tile_.slots[slot].operand->access;
  const int64_t offset = offsetAt(access, point);
  // Loads are shared within a tile: points that read the same elements get one load, until a store calls forget().
  const auto key = std::tuple(slot, offset, lanes == 1 ? 1 : point.active);
  if (auto found = loads_.find(key); found != loads_.end()) return found->second;
  const mlir::Type memory = memoryType(access.element);
  const int64_t stride = plan_.vector_loop < 0 ? 0 : access.strides[plan_.vector_loop];
  const int32_t alignment = alignmentOf(memory);
  Value pointer = pointers_[slot];
  auto scalarAt = [&](int64_t element) -> Value {
    return LLVM::LoadOp::create(b_, loc_, memory, at(pointer, memory, element), alignment);
  };
  Value value;
  if (lanes == 1) {
    value = fromMemory(scalarAt(offset), access.element);
  } else if (stride == 0) {
    value = fromMemory(scalarAt(offset), access.element);
    value = mlir::vector::BroadcastOp::create(b_, loc_, mlir::VectorType::get({lanes}, value.getType()), value);
  } else {
    auto type = mlir::VectorType::get({lanes}, memory);
    auto contiguous = [&](int64_t further, int count) -> Value {
      Value from = at(pointer, memory, offset + further);
      if (count == lanes) return LLVM::LoadOp::create(b_, loc_, type, from, alignment);
      Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
      return LLVM::MaskedLoadOp::create(b_, loc_, type, from, mask(lanes, count), zero, alignment);
    };
    // Four ways, cheapest first: one load; a transposed square; whole vectors and shuffles; element by element.
    if (stride == 1) {
      value = contiguous(0, point.active);
    } else {
      if (turn(slot, point, stride)) return loads_[key];
      if (loadsWholeVectors(stride, lanes))
        return loads_[key] = fromMemory(loadStrided(b_, stride, lanes, point.active, contiguous), access.element);
      value = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
      for (int lane = 0; lane < point.active; ++lane)
        value = mlir::vector::InsertOp::create(b_, loc_, scalarAt(offset + lane * stride), value, lane);
    }
    value = fromMemory(value, access.element);
  }
  loads_[key] = value;
  return value;
}

/// Loads the square of the tile that contains `point` along the transposed loop, transposes it, and caches the vectors
/// of all its points in loads_. Returns false when the operand is not contiguous along that loop.
bool TileMemory::turn(int slot, const Point& point, int64_t stride) {
  const int along = plan_.transposed;
  const Access& access = tile_.slots[slot].operand->access;
  if (along < 0 || access.strides[along] != 1) return false;
  const mlir::Type memory = memoryType(access.element);
  const int lanes = plan_.lanes, width = static_cast<int>(tile_.sizes[along]);
  auto type = mlir::VectorType::get({lanes}, memory);
  Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
  // The square begins at the tile's first point along the transposed loop, whichever point was requested.
  Point corner = point;
  corner.at[along] = 0;
  const int64_t offset = offsetAt(access, corner);
  Values rows;
  for (int lane = 0; lane < lanes; ++lane) {
    // Rows after the last active lane are not in the operand: zeros complete the square.
    if (lane >= point.active) {
      rows.push_back(zero);
      continue;
    }
    Value from = at(pointers_[slot], memory, offset + lane * stride);
    if (width == lanes) {
      rows.push_back(LLVM::LoadOp::create(b_, loc_, type, from, alignmentOf(memory)));
    } else {
      rows.push_back(LLVM::MaskedLoadOp::create(b_, loc_, type, from, mask(lanes, width), zero, alignmentOf(memory)));
    }
  }
  const Values turned = transposeSquare(b_, rows);
  for (int i = 0; i < width; ++i)
    loads_[std::tuple(slot, offset + i, point.active)] = fromMemory(turned[i], access.element);
  return true;
}

void TileMemory::store(int slot, const Point& point, int lanes, Value value) {
  const Access& access = tile_.slots[slot].operand->access;
  const mlir::Type memory = memoryType(access.element);
  const int64_t offset = offsetAt(access, point);
  const int64_t stride = plan_.vector_loop < 0 ? 0 : access.strides[plan_.vector_loop];
  const int32_t alignment = alignmentOf(memory);
  Value pointer = pointers_[slot];
  if (access.element.isInteger(1) || access.element.isIndex()) {
    mlir::Type type = memory;
    if (lanes > 1) type = mlir::VectorType::get({lanes}, memory);
    if (access.element.isIndex()) {
      value = arith::IndexCastOp::create(b_, loc_, type, value);
    } else {
      value = arith::ExtUIOp::create(b_, loc_, type, value);
    }
  }
  if (lanes == 1 || (stride == 1 && point.active == lanes)) {
    LLVM::StoreOp::create(b_, loc_, value, at(pointer, memory, offset), alignment);
  } else if (stride == 1) {
    LLVM::MaskedStoreOp::create(b_, loc_, value, at(pointer, memory, offset), mask(lanes, point.active), alignment);
  } else {
    for (int lane = 0; lane < point.active; ++lane)
      LLVM::StoreOp::create(b_, loc_, mlir::vector::ExtractOp::create(b_, loc_, value, lane),
                            at(pointer, memory, offset + lane * stride), alignment);
  }
}

// A transposed store needs a loop of the tile along which the output is contiguous, and at least a quarter of a square
// of points along it.
int TileMemory::transposedStore(int slot, int lanes) const {
  const Access& access = tile_.slots[slot].operand->access;
  if (plan_.vector_loop < 0 || lanes < 4 || lanes > 16) return -1;
  if (access.element.isInteger(1) || access.element.isIndex() || access.strides[plan_.vector_loop] < 2) return -1;
  for (int loop = 0; loop < nest_.loops(); ++loop)
    if (loop != plan_.vector_loop && !nest_.reduction[loop] && access.strides[loop] == 1 &&
        tile_.sizes[loop] >= lanes / 4)
      return loop;
  return -1;
}

void TileMemory::storeTransposed(int slot, llvm::ArrayRef<Point> points, int along, llvm::ArrayRef<Value> values) {
  const Access& access = tile_.slots[slot].operand->access;
  const mlir::Type memory = memoryType(access.element);
  const int lanes = plan_.lanes;
  const int64_t apart = access.strides[plan_.vector_loop];
  Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(mlir::VectorType::get({lanes}, memory)));
  llvm::SmallVector<bool> done(points.size(), false);
  for (size_t first = 0; first < points.size(); ++first) {
    if (done[first]) continue;
    Values rows;
    // Collects up to `lanes` points that follow `first` along the contiguous loop.
    for (size_t p = first; p < points.size() && static_cast<int>(rows.size()) < lanes; ++p) {
      llvm::SmallVector<int64_t> expected = points[first].at;
      expected[along] += static_cast<int64_t>(rows.size());
      if (done[p] || points[p].at != expected) continue;
      done[p] = true;
      rows.push_back(values[p]);
    }
    const auto count = static_cast<int>(rows.size());
    rows.resize(lanes, zero);
    const Values turned = transposeSquare(b_, rows);
    for (int lane = 0; lane < points[first].active; ++lane) {
      Value to = at(pointers_[slot], memory, offsetAt(access, points[first]) + lane * apart);
      if (count == lanes) {
        LLVM::StoreOp::create(b_, loc_, turned[lane], to, alignmentOf(memory));
      } else {
        LLVM::MaskedStoreOp::create(b_, loc_, turned[lane], to, mask(lanes, count), alignmentOf(memory));
      }
    }
  }
}

void TileMemory::enter(int loop, Value iteration) {
  for (auto [slot, pointer] : llvm::enumerate(pointers_)) {
    if (!pointer) continue;
    const Access& access = tile_.slots[slot].operand->access;
    pointer = advance(b_, pointer, memoryType(access.element), access.strides[loop], iteration);
  }
}

Value advance(mlir::OpBuilder& builder, Value pointer, mlir::Type element, int64_t stride, Value index) {
  if (stride == 0) return pointer;
  const mlir::Location loc = builder.getUnknownLoc();
  Value offset = index;
  if (stride != 1)
    offset = arith::MulIOp::create(builder, loc, index, arith::ConstantIntOp::create(builder, loc, stride, 64));
  return LLVM::GEPOp::create(builder, loc, pointer.getType(), element, pointer, llvm::ArrayRef<LLVM::GEPArg>{offset},
                             LLVM::GEPNoWrapFlags::inbounds);
}

mlir::Type memoryType(mlir::Type element) {
  if (element.isInteger(1)) return mlir::IntegerType::get(element.getContext(), 8);
  if (element.isIndex()) return mlir::IntegerType::get(element.getContext(), 64);
  return element;
}

}  // namespace tessera::compiler::codegen
