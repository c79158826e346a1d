#pragma once

#include <memory>

#include "compiler/ir/canonicalizer.h"
#include "mlir/IR/MLIRContext.h"

namespace tessera::compiler {

/// A context with the dialects that models are imported to, and what brings their graphs to canonical form: to make
/// them takes longer than to plan a small model. It serves one model, since what a context has seen stays with it.
struct GraphWorkbench {
  GraphWorkbench();

  mlir::MLIRContext context;  ///< without threads
  Canonicalizer canonicalizer;
};

/// The one that was made ahead, or a new one.
std::unique_ptr<GraphWorkbench> graphWorkbench();

/// Makes one ahead, for who asks next in this process or in one that is forked from it.
void prepareGraphWorkbench();

}  // namespace tessera::compiler
