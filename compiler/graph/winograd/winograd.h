#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/facts/rows.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

struct WinogradReport {
  int rewritten = 0;
  std::vector<v1::Decision> decisions;  ///< of kind "algorithm", one for each convolution that could be rewritten
};

/// Rewrites 3x3 convolutions with stride 1 as products in Winograd's domain where WinogradPrices says that it pays.
///
/// Inputs and filters of f16 and bf16 are widened as the transforms load them; filters are kept in f32 then.
/// Works on convolutions in blocked layouts (input [N, C/c, H + 2, W + 2, c], filter [K/k, C/c, 3, 3, c, k], known at
/// compile time), that is behind assignLayouts; channels last are one block, which has no dimension of its own. With
/// blocks of m x m results, t = m + 2, Th x Tw blocks:
///
///   V[p, q, C/c, N, Th, Tw, c] = sum over i, j of B[p, i] B[q, j] x[N, C/c, m Th + i, m Tw + j, c]
///   M[p, q, K/k, N, Th, Tw, k] = sum over C of V[p, q, C, N, Th, Tw] U[p, q, K, C]
///   y[N, K/k, m Th + i, m Tw + j, k] = sum over p, q of A[i, p] A[j, q] M[p, q, K/k, N, Th, Tw, k]
///
/// A dilated convolution (taps d rows and columns apart) is d x d such ones side by side: V and M have two more
/// dimensions behind N, which row and which column of d, and d m Th + d i + a stands for m Th + i.
///
/// The filters U = G g G^T depend on weights alone; foldConstants evaluates them. Extents that m does not divide are
/// computed in whole blocks from an input padded further, and cut. What followed the convolution follows y.
/// Choices of kind "algorithm", one for each convolution that could be rewritten. Where slices that a direct one shares
/// with its neighbours could gain more, all such convolutions and slices are one choice (contested.h), as `merging`
/// lets slices be. Where `rows` say that a run may have fewer images, that way is taken whose time is at most the
/// fewest times the best one's, whatever the run has: few images wait for filters, of which Winograd's domain has more.
/// Accuracy against direct sums is stated in clients/docs/design/winograd.md.
WinogradReport applyWinograd(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices,
                             fusion::Merging merging = fusion::Merging::kWhereItPays, const RowFacts* rows = nullptr);

}  // namespace tessera::compiler
