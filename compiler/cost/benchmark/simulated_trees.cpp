// The analysis beside the simulation on random trees: simulated_trees [TREES [SEED [FILE.csv]]].
#include <iostream>

#include "compiler/cost/testing/random_trees.h"

using namespace tessera::compiler;

int main(int count, char** arguments) {
  const int trees = count > 1 ? std::stoi(arguments[1]) : 1000;
  const uint64_t seed = count > 2 ? std::stoull(arguments[2]) : 1;
  const cost::Agreement found = cost::compareRandomTrees(trees, seed, count > 3 ? arguments[3] : "");
  std::cout << found.trees << " trees: " << found.unequal_words << " with other words, cycles R2 " << found.cycles_r2
            << ", mean error " << 100 * found.cycles_mean_error << " %, worst " << 100 * found.cycles_worst_error
            << " %, energy mean error " << 100 * found.energy_mean_error << " %\n"
            << found.first_unequal << "\nworst: " << found.worst << "\n";
}
