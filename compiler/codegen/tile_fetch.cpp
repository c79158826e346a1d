#include "compiler/codegen/tile_fetch.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tessera::compiler::codegen {
namespace {

/// Levels that a prefetch names (LLVM's "locality").
constexpr int kToL1 = 3;

bool inMemory(const Operand& operand) { return operand.access.root && !operand.from; }

}  // namespace

/// Asks for the lines that the points of the tile touch in a slot, `further` elements from where they are now.
void TileFetch::lines(int slot, int64_t further, bool to_write) {
  const Access& access = memory_.access(slot);
  const int64_t along = access.strides[plan_.vector_loop];
  if (!memory_.pointer(slot) || (along != 1 && along != 0)) return;
  const mlir::Type memory = memoryType(access.element);
  llvm::SmallVector<int64_t> fetched;
  for (const Point& point : points_) {
    const int64_t offset = memory_.offsetAt(access, point) + further;
    if (llvm::is_contained(fetched, offset)) continue;
    fetched.push_back(offset);
    mlir::LLVM::Prefetch::create(b_, b_.getUnknownLoc(), memory_.at(memory_.pointer(slot), memory, offset),
                                 to_write ? 1 : 0, kToL1, /*cache=*/1);
  }
}

void TileFetch::ahead() {
  const int step = plan_.reductions.back();
  for (auto [slot, operand] : llvm::enumerate(nest_.statements[0].inputs))
    if (inMemory(operand) && operand.access.strides[plan_.vector_loop] == 1)
      lines(static_cast<int>(slot), plan_.ahead * operand.access.strides[step], false);
}

void TileFetch::rows(int loop) {
  for (auto [slot, operand] : llvm::enumerate(nest_.statements[0].inputs))
    if (inMemory(operand) && operand.access.strides[plan_.vector_loop] == 0)
      lines(static_cast<int>(slot), operand.access.strides[loop], false);
}

void TileFetch::results() {
  int slot = 0;
  for (const Statement& statement : nest_.statements) {
    slot += static_cast<int>(statement.inputs.size());
    for (size_t o = 0; o < statement.outputs.size(); ++o, ++slot)
      if (statement.stored[o]) lines(slot, 0, true);
  }
}

}  // namespace tessera::compiler::codegen
