#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/choices.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// A contested convolution: one that is predicted to run faster in Winograd's domain, and for which fusion of the
/// direct form with its neighbours could gain even more.
struct WinogradCandidate {
  mlir::Operation* op = nullptr;
  double gain_us = 0;  ///< in Winograd's domain, beyond the error of the predicted times
};

/// The outcome for one convolution.
struct WinogradOutcome {
  bool rewritten = false;  ///< to Winograd's domain
  std::string slices;      ///< otherwise the place of the slices that contain it
  double gain_us = 0;      ///< of `slices`, beyond the error of the predicted times
};

struct WinogradSelection {
  std::vector<WinogradOutcome> each;  ///< by convolution
  double optimality_gap_us = 0;       ///< bound on the extra gain of another selection; 0: optimal
};

/// Decides for all contested convolutions (WinogradCandidate) together which ones move to Winograd's domain and which
/// ones stay direct in slices with their neighbours (chooseFusions), by the largest total gain. One selection
/// (fusion/selection.h) contains every chain and region of the groups of `main`, and each convolution's gain as a
/// candidate of its group alone. Convolutions that a pin fuses stay direct. Slices around stages in Winograd's domain
/// do not exist yet; they are chosen after the rewrite (chooseFusions).
///
/// Does not change `main` or `choices`.
WinogradSelection selectWinogradForms(mlir::func::FuncOp main,
                                      const std::vector<WinogradCandidate>& winograd_candidates, const Chip& chip,
                                      const GraphChoices& choices, fusion::FusionPolicy fusion_policy,
                                      const UsedRowAnalysis* rows);

}  // namespace tessera::compiler
