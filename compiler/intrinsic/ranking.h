#pragma once

#include <vector>

/// How well a model orders candidates (thesis, 5.7.2: 85.7 % of pairs, 91.4 % of the best 40 %).
namespace tessera::compiler::intrinsic {

/// The share of pairs, among those whose measured times differ by more than `apart` (0.01: the slower one takes 1 %
/// longer), whose predicted order equals the measured one; a predicted tie counts half. 1 if there are no such pairs.
/// Both lists must have the same length; smaller is better.
double pairwiseAccuracy(const std::vector<double>& predicted, const std::vector<double>& measured, double apart = 0);

/// Of the `share` (0 to 1, rounded up to whole candidates) with the best measured times, the share that is among
/// equally many with the best predictions. 1 for empty lists.
double recallOfBest(const std::vector<double>& predicted, const std::vector<double>& measured, double share);

}  // namespace tessera::compiler::intrinsic
