// Trees per second of one core: attention as seven operators, tiled over three memory levels.
#include <ctime>
#include <iostream>

#include "compiler/cost/dataflow.h"
#include "compiler/schedule/text.h"

using namespace tessera::compiler;

namespace {

/// Extents of heads, rows, columns and both inner loops.
void measure(const char* name, const std::vector<int64_t>& extents) {
  const loopnest::Nest nest =
      loopnest::parse(
          "attention",
          "S[h, m, l] += Q[h, m, k] * K[h, l, k]; M[h, m] = max(S[h, m, l]); T[h, m, l] = S[h, m, l] - M[h, m]; "
          "P[h, m, l] = exp(T[h, m, l]); D[h, m] = P[h, m, l]; N[h, m, l] = P[h, m, l] / D[h, m]; "
          "O[h, m, n] += N[h, m, l] * V[h, l, n]",
          extents)
          .value();
  const tessera::v1::Schedule tree =
      parseSchedule(
          "DRAM [h:Sp(core)/3 h:Tp/1 m:Tp/64] Pipe\n"
          "  L1 [l:Tp/64 k:Tp/32]\n    L0 [m:Tp/16 k:Tp/16 l:Tp/16] compute nest 0\n"
          "  L1 [] Shar\n"
          "    L0 [m:Tp/1 l:Tp/16] compute nest 1\n    L0 [m:Tp/1 l:Tp/16] compute nest 2\n"
          "    L0 [m:Tp/1 l:Tp/16] compute nest 3\n    L0 [m:Tp/1 l:Tp/16] compute nest 4\n"
          "    L0 [m:Tp/1 l:Tp/16] compute nest 5\n"
          "  L1 [n:Tp/32 l:Tp/64]\n    L0 [m:Tp/16 n:Tp/16 l:Tp/16] compute nest 6\n")
          .value();
  cost::Machine machine;
  for (const char* name : {"L0", "L1", "DRAM"})
    machine.memories.push_back({.name = name, .instances = 4, .read_bytes_per_cycle = 64, .write_bytes_per_cycle = 64});
  machine.units = {{.name = "core", .count = 4, .operations_per_cycle = 2048}};
  constexpr int kTrees = 5'000;
  double cycles = 0;
  const std::clock_t begin = std::clock();
  for (int i = 0; i < kTrees; ++i) cycles += analyzeDataflow(nest, tree, machine)->cycles;
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::cout << name << ": " << kTrees / seconds << " trees a second, " << cycles / kTrees << " cycles each\n";
}

}  // namespace

int main() {
  measure("steps that divide", {12, 512, 512, 64, 64});
  measure("partial steps", {11, 500, 500, 60, 60});
}
