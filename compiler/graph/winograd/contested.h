#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/facts/rows.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// A convolution that Winograd's domain pays for by itself, and that slices with its neighbours could pay more for.
struct Contested {
  mlir::Operation* op = nullptr;
  double gain_us = 0;  ///< in Winograd's domain, beyond the error of its price
};

/// What became of one.
struct Settled {
  bool rewritten = false;  ///< into Winograd's domain
  std::string slices;      ///< else: the place of the slices that it shares
  double gain_us = 0;      ///< what these gain, beyond the error of their price
};

struct Settlement {
  std::vector<Settled> each;  ///< by convolution
  double missed_us = 0;       ///< another choice gains at most so much more; 0: this is the best
};

/// One choice over the graph: which convolutions leave for Winograd's domain, which stay and share slices with their
/// neighbours (chooseFusions), whatever together gains most by the prices of both. Every chain and region that groups
/// of `main` offer as it is, and each convolution's gain as an offer of its group alone, go into one selection
/// (fusion/selection.h). What a pin fuses keeps its convolutions. What others gain around stages in Winograd's domain
/// is not known before there are any: their choice is made anew behind (chooseFusions).
///
/// Nothing of `main` or `choices` is changed.
Settlement settle(mlir::func::FuncOp main, const std::vector<Contested>& contested, const Chip& chip,
                  const GraphChoices& choices, fusion::Merging merging, const RowFacts* rows);

}  // namespace tessera::compiler
