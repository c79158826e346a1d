#pragma once

#include <memory>

#include "compiler/ir/canonicalizer.h"
#include "mlir/IR/MLIRContext.h"

namespace tessera::compiler {

/// A context with the dialects of imported models, and a canonicalizer. Constructing it takes longer than planning a
/// small model. It serves one model, because a context keeps everything that it has seen.
struct PlanningContext {
  PlanningContext();

  mlir::MLIRContext context;  ///< without threads
  Canonicalizer canonicalizer;
};

/// Returns the context that preparePlanningContext() made, or a new one.
std::unique_ptr<PlanningContext> acquirePlanningContext();

/// Prepares a context for the next acquirePlanningContext() call in this process or in a forked child.
void preparePlanningContext();

}  // namespace tessera::compiler
