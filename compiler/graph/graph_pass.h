#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/code_facts.h"
#include "compiler/graph/constants/folded_memory.h"
#include "compiler/ir/canonicalizer.h"
#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

/// The passes of this room, each declared once: the pipeline of planGraph() (pipeline.h), `tessera-opt` and the
/// checking mode (compiler/verification) name them by this table.
namespace tessera::compiler {

/// State that a pass reads and changes besides the function. Lives as long as one function is rewritten.
struct PassState {
  mlir::func::FuncOp main;
  const Chip& chip;
  Canonicalizer& canonicalizer;
  const ImportedModel* model = nullptr;           ///< null: no dimension is a range
  std::vector<Weight>* weights = nullptr;         ///< of the function's weight arguments; null: their bytes are unknown
  const std::vector<v1::Choice>* pins = nullptr;  ///< null: none
  FoldedWeightStorage folded_weights = {};  ///< allocates the bytes of folded weights (clients/docs/design/terms.md)
  CodeFacts code = {.prepares_weights = false};  ///< of the code that runs the graph
  /// Whether the bytes of derived weights are computed after each pass, for an observer that reads them.
  bool compute_derived = false;
  fusion::FusionPolicy fusion_policy = fusion::FusionPolicy::kWhereItPays;

  GraphChoices choices = {};                 ///< pins, and the choices of the passes so far
  std::vector<v1::Decision> decisions = {};  ///< of the passes so far, in their order
  int layout_transforms_before = 0;          ///< see GraphReport
  int layout_transforms = 0;
};

struct GraphPass {
  /// What the pass requires of the model and the target, and how its changes are reported and checked. ORed.
  enum Properties : unsigned {
    kNone = 0,
    kStaticShapes = 1,  ///< the pipeline skips the pass if a dimension of the model is a range
    kChip = 2,          ///< it decides by the chip's parameters or instructions
    kWeights = 4,       ///< it changes nothing without the bytes of weights
    kUncounted = 8,     ///< reports do not count its changes
    kRounds = 16,       ///< it changes results on request: later passes are compared with the graph after this pass
  };

  const char* name;      ///< `tessera-opt` has it as "tessera-NAME"
  const char* reported;  ///< in GraphReport.rewrites and in messages of the checking mode
  const char* summary;   ///< one line
  unsigned properties;   ///< Properties
  /// Returns the number of changes. Errors end planning.
  absl::StatusOr<int> (*run)(PassState& state);
};

std::span<const GraphPass> graphPasses();

/// Returns the pass of that name; ends the process if there is none.
const GraphPass& graphPass(std::string_view name);

}  // namespace tessera::compiler
