#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"

namespace tessera::compiler {

/// A loop that stays a loop in the module (ir/loop_op.h), as a lowering asks for it.
struct LoopRequest {
  std::optional<Tensor> trip_count = std::nullopt;  ///< i64, one element; where `most` alone is not it
  std::optional<Tensor> condition = std::nullopt;   ///< bool, one element: whether a first iteration runs
  int64_t most = -1;                                ///< iterations; -1: no bound is known, and nothing is scanned
  std::vector<Tensor> carried = {};
  std::vector<Tensor> scanned = {};  ///< each of `most` parts along its first dimension
  llvm::SmallVector<bool> scanned_reversed = {};
  llvm::SmallVector<bool> stacked_reversed = {};  ///< one for each tensor that is made of parts
};

/// What the body of a loop computes from.
struct LoopArguments {
  Tensor iteration;  ///< i64: how many ran before
  std::vector<Tensor> carried;
  std::vector<Tensor> parts;  ///< of what is scanned
};

struct LoopYield {
  std::optional<Tensor> condition = std::nullopt;  ///< bool: whether another iteration may run
  std::vector<Tensor> carried = {};                ///< of the types and extents of the request's
  std::vector<Tensor> parts = {};                  ///< of what is stacked
};

struct LoopResults {
  std::vector<Tensor> carried;
  std::vector<Tensor> stacked;  ///< `most` parts along the first dimension, whose extent is `executed` if that varies
  Tensor executed;              ///< i64: iterations that ran
  bool of_constants = false;    ///< constants alone go in: it might be computed now
};

/// A body whose function is filled, and what goes in and out of it.
struct BodyBorder {
  struct Carried {
    mlir::Value argument = {};
    bool changes = true;  ///< else each iteration hands on what it was given
  };
  std::vector<Carried> carried = {};
  LoopYield yield = {};
  bool has_condition = false;
};

/// Lowers a body. What it reads of values around the loop becomes an operand of the loop by itself.
using LoopBuilder = llvm::function_ref<absl::StatusOr<LoopYield>(Emitter& body, const LoopArguments& arguments)>;

}  // namespace tessera::compiler
