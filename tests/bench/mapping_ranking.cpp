// Ranking quality of a cost model: reads lines of "predicted measured" (any units, smaller is better; '#' starts a
// comment) from standard input and prints pairwise accuracy and recall of the best (thesis, figure 5.5).
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/intrinsic/ranking.h"

int main() {
  std::vector<double> predicted, measured;
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream words(line);
    double cost = 0, time = 0;
    if (!(words >> cost)) continue;
    if (!(words >> time)) {
      std::fprintf(stderr, "line %d: found one number, accepted are two: predicted and measured\n", number);
      return 2;
    }
    predicted.push_back(cost);
    measured.push_back(time);
  }
  if (predicted.size() < 2) {
    std::fprintf(stderr, "%zu candidates; two or more are needed\n", predicted.size());
    return 2;
  }
  using namespace tessera::compiler::intrinsic;  // NOLINT: a program of one function
  std::printf("%zu candidates; thesis: 85.7 %% of pairs, 91.4 %% of the best 40 %%\n", predicted.size());
  std::printf("pairs in the measured order  %5.1f %%\n", 100 * pairwiseAccuracy(predicted, measured));
  for (int percent = 10; percent <= 60; percent += 10) {
    std::printf("recall of the best %2d %%      %5.1f %%\n", percent,
                100 * recallOfBest(predicted, measured, percent / 100.0));
  }
  return 0;
}
