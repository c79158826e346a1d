#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/choices.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

struct WinogradReport {
  int rewritten = 0;
  std::vector<v1::Decision> decisions;  ///< of kind "algorithm", one for each convolution that could be rewritten
};

/// Rewrites 3x3 convolutions with stride 1 as products in Winograd's domain if WinogradCostModel predicts a gain.
///
/// Inputs and filters of f16 and bf16 are widened as the transforms load them; filters are then kept in f32. Works on
/// blocked layouts (input [N, C/c, H + 2, W + 2, c], filter [K/k, C/c, 3, 3, c, k], known at compile time), so it runs
/// after assignLayouts. Channels last are one block, without a dimension of its own. With blocks of m x m results, t =
/// m + 2, Th x Tw blocks:
///
///   V[p, q, C/c, N, Th, Tw, c] = sum over i, j of B[p, i] B[q, j] x[N, C/c, m Th + i, m Tw + j, c]
///   M[p, q, K/k, N, Th, Tw, k] = sum over C of V[p, q, C, N, Th, Tw] U[p, q, K, C]
///   y[N, K/k, m Th + i, m Tw + j, k] = sum over p, q of A[i, p] A[j, q] M[p, q, K/k, N, Th, Tw, k]
///
/// A dilated convolution (taps d rows and columns apart) is d x d plain ones: V and M have two more dimensions after N,
/// the row and the column modulo d, and d m Th + d i + a replaces m Th + i.
///
/// The filters U = G g G^T depend on weights alone; foldConstants evaluates them. Extents that m does not divide are
/// computed in whole blocks from an input with more padding, and sliced. Operations after the convolution move after y.
/// Records choices of kind "algorithm", one for each eligible convolution. If slices of direct convolutions with their
/// neighbours could gain more, all such convolutions and slices are selected together (winograd_selection.h), within
/// `fusion_policy`. If runs may have fewer images (`rows`), applyWinograd() divides the time of each form (direct, or
/// one of the algorithms) by the time of the fastest form, at every size, and takes the form whose largest ratio is
/// smallest: with few images, loading the filters takes most of the time, and filters are larger in Winograd's domain.
/// Accuracy: clients/docs/design/winograd.md.
WinogradReport applyWinograd(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices,
                             fusion::FusionPolicy fusion_policy = fusion::FusionPolicy::kWhereItPays,
                             const UsedRowAnalysis* rows = nullptr);

}  // namespace tessera::compiler
