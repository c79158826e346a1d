#include "compiler/interpreter/structure.h"

#include "llvm/ADT/DenseMap.h"

namespace tessera::compiler::interpreter {
namespace {

uint64_t wordOf(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace

// Values are numbered in the order of the walk, so addresses do not count. A value from outside of `op` has the number
// 0, and operands of `op` itself are left out: equal bodies on different operands are equal.
uint64_t structureOf(mlir::Operation* op) {
  uint64_t hash = 0;
  llvm::DenseMap<mlir::Value, uint64_t> numbers;
  op->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation* each) {
    hash = mix(hash, wordOf(each->getName().getAsOpaquePointer()));
    hash = mix(hash, wordOf(each->getAttrDictionary().getAsOpaquePointer()));
    if (each != op) {
      for (mlir::Value operand : each->getOperands()) {
        auto it = numbers.find(operand);
        hash = mix(hash, it == numbers.end() ? 0 : it->second);
      }
    }
    for (mlir::Type type : each->getOperandTypes()) hash = mix(hash, wordOf(type.getAsOpaquePointer()));
    for (mlir::Value result : each->getResults()) {
      hash = mix(hash, wordOf(result.getType().getAsOpaquePointer()));
      numbers[result] = numbers.size() + 1;
    }
    for (mlir::Region& region : each->getRegions()) {
      for (mlir::Block& block : region) {
        for (mlir::BlockArgument argument : block.getArguments()) numbers[argument] = numbers.size() + 1;
      }
    }
  });
  return hash;
}

}  // namespace tessera::compiler::interpreter
