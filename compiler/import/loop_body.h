#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"

namespace tessera::compiler {

/// A loop that stays a loop in the module (ir/loop_op.h), as requested by a lowering.
struct LoopRequest {
  std::optional<Tensor> trip_count = std::nullopt;  ///< i64, one element; if `most` is not exact
  std::optional<Tensor> condition = std::nullopt;   ///< bool, one element: whether a first iteration runs
  int64_t most = -1;                                ///< bound of the iterations; -1: unknown, and nothing is scanned
  std::vector<Tensor> carried = {};
  std::vector<Tensor> scanned = {};  ///< each with `most` parts along its first dimension
  llvm::SmallVector<bool> scanned_reversed = {};
  llvm::SmallVector<bool> stacked_reversed = {};  ///< one for each stacked tensor
  /// Limit for a loop that reads constants alone. If its number of iterations is at most this, or has no known bound,
  /// no loop is emitted: the caller unrolls it, and its results are computed at import.
  int64_t unrolled_if_constant = -1;
};

/// The inputs of a loop body.
struct LoopArguments {
  Tensor iteration;  ///< i64: iterations before this one
  std::vector<Tensor> carried;
  std::vector<Tensor> parts;  ///< of scanned tensors
};

struct LoopYield {
  std::optional<Tensor> condition = std::nullopt;  ///< bool: whether another iteration follows
  std::vector<Tensor> carried = {};                ///< with the types and extents of the request
  std::vector<Tensor> parts = {};                  ///< of stacked tensors
  bool once = false;                               ///< the first iteration is the last: no loop is emitted
};

struct LoopResults {
  std::vector<Tensor> carried;
  std::vector<Tensor> stacked;  ///< `most` parts along the first dimension, whose extent is `executed` if that varies
  Tensor executed;              ///< i64: iterations that ran
  bool of_constants = false;    ///< all inputs are constants: the loop could be evaluated at import
};

/// A body whose function is complete, with its inputs and outputs.
struct BodyInterface {
  struct Carried {
    mlir::Value argument = {};
    bool changes = true;  ///< false: each iteration returns its inputs unchanged
  };
  std::vector<Carried> carried = {};
  LoopYield yield = {};
  bool has_condition = false;
};

/// Returns the condition of a loop without one: the constant true.
inline Tensor alwaysTrue() { return Emitter::wrap(makeConstant(v1::DATA_TYPE_BOOL, {}, std::string(1, '\1'))); }

/// Lowers a body. Outer values that it reads become operands of the loop automatically.
using LoopBuilder = llvm::function_ref<absl::StatusOr<LoopYield>(Emitter& body, const LoopArguments& arguments)>;

}  // namespace tessera::compiler
