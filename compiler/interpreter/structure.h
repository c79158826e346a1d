#pragma once

#include <cstdint>

#include "mlir/IR/Operation.h"

namespace tessera::compiler::interpreter {

/// Appends a word to a hash.
inline uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 31);
}

/// A hash of an operation including its regions: names, attributes, types and data flow. Equal operations in one MLIR
/// context have equal hashes.
uint64_t structureOf(mlir::Operation* op);

}  // namespace tessera::compiler::interpreter
