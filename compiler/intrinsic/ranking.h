#pragma once

#include <vector>

/// How well a model orders candidates (thesis, 5.7.2: 85.7 % of pairs, 91.4 % of the best 40 %).
namespace tessera::compiler::intrinsic {

/// Of all pairs whose measured times differ by more than `apart` (0.01: the slower one takes 1 % longer), the share
/// whose predicted order is the measured one; a tie of the prediction counts half. 1 where no pair differs so. Both
/// lists are as long, smaller is better.
double pairwiseAccuracy(const std::vector<double>& predicted, const std::vector<double>& measured, double apart = 0);

/// Of the `share` (0 to 1, rounded up to whole candidates) with the best measured times, how many are among as many
/// with the best predictions. 1 for empty lists.
double recallOfBest(const std::vector<double>& predicted, const std::vector<double>& measured, double share);

}  // namespace tessera::compiler::intrinsic
