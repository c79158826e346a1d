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

/// A convolution that gains in Winograd's domain, and that slices with its neighbours could improve more.
struct WinogradCandidate {
  mlir::Operation* op = nullptr;
  double gain_us = 0;  ///< in Winograd's domain, beyond the price's error
};

/// The outcome for one convolution.
struct WinogradOutcome {
  bool rewritten = false;  ///< to Winograd's domain
  std::string slices;      ///< otherwise the place of the slices that contain it
  double gain_us = 0;      ///< of `slices`, beyond the price's error
};

struct WinogradSelection {
  std::vector<WinogradOutcome> each;  ///< by convolution
  double missed_us = 0;               ///< bound on the extra gain of another selection; 0: optimal
};

/// Decides for all contested convolutions together which ones move to Winograd's domain and which ones stay direct in
/// slices with their neighbours (chooseFusions), by the largest total gain. One selection (fusion/selection.h) contains
/// every chain and region of the groups of `main`, and each convolution's gain as a candidate of its group alone.
/// Convolutions that a pin fuses stay direct. Slices around stages in Winograd's domain do not exist yet; they are
/// chosen after the rewrite (chooseFusions).
///
/// Does not change `main` or `choices`.
WinogradSelection settle(mlir::func::FuncOp main, const std::vector<WinogradCandidate>& winograd_candidates,
                         const Chip& chip, const GraphChoices& choices, fusion::Merging merging,
                         const UsedRowAnalysis* rows);

}  // namespace tessera::compiler
