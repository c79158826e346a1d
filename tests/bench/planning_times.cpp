// Time of the analysis of a chain, for the chains of tables 3.5 and 3.6 of the thesis on one core of a chip.
//   planning_times [TARGET]
// Median milliseconds: `blocks` solves the loop order and the blocks of one level (planBlocks); `slices` is the query
// that the compiler makes for each chain of a model (decideSlices). Not a test; prints a table.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "compiler/fusion/chain.h"
#include "compiler/fusion/decision.h"
#include "compiler/fusion/testing/thesis_chains.h"
#include "compiler/target/target.h"

namespace tessera::compiler::fusion {
namespace {

constexpr int kRepeats = 31;

struct Row {
  std::string name;
  Chain chain;
  BetweenMembers between;
  std::vector<int> cut;  // sliced as by graph/slices/fuse_chains: batch and rows, image lines
};

std::vector<Row> rows() {
  struct Products {
    const char* name;
    int64_t batch, m, n, k, l;
  };
  struct Convolutions {
    const char* name;
    int64_t channels, size, middle, output, stride1, stride2, window1, window2;
  };
  std::vector<Row> rows;
  for (const bool softmax : {false, true}) {
    for (const Products& p : {Products{"G1", 8, 512, 64, 64, 512}, Products{"G6", 16, 256, 80, 80, 256},
                              Products{"G9", 16, 208, 80, 80, 208}, Products{"G12", 1, 1024, 64, 64, 512}}) {
      Row row{std::string(p.name) + (softmax ? " softmax" : ""), gemmChain(p.batch, p.m, p.n, p.k, p.l, 8), {}, {}};
      if (softmax) row.between = {.passes = 6, .steps = 1};
      for (const char* loop : {"b", "m"}) {
        if (const int at = row.chain.loopNamed(loop); at >= 0) row.cut.push_back(at);
      }
      rows.push_back(std::move(row));
    }
  }
  for (const Convolutions& c :
       {Convolutions{"C1", 64, 112, 192, 128, 2, 1, 3, 1}, Convolutions{"C2", 32, 147, 64, 80, 2, 1, 3, 1},
        Convolutions{"C3", 64, 56, 128, 64, 1, 1, 3, 1}, Convolutions{"C4", 128, 28, 256, 128, 1, 1, 3, 1},
        Convolutions{"C5", 16, 227, 64, 16, 4, 1, 3, 1}, Convolutions{"C6", 64, 56, 64, 64, 1, 1, 1, 3},
        Convolutions{"C7", 64, 56, 64, 64, 1, 1, 1, 1}, Convolutions{"C8", 256, 56, 256, 64, 1, 1, 1, 1}}) {
    const int64_t padded = c.size + (c.window1 - 1) + (c.window2 - 1);
    Row row{
        c.name,
        convolutionChain({c.channels, padded, padded, c.middle, c.output, c.stride1, c.stride2, c.window1, c.window2}),
        {},
        {}};
    row.cut = {row.chain.loopNamed("h")};
    rows.push_back(std::move(row));
  }
  return rows;
}

template <typename Decide>
double milliseconds(const char* what, const Row& row, Decide decide) {
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto decision = decide();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    if (!decision.ok()) {
      std::fprintf(stderr, "%s, %s: %s\n", row.name.c_str(), what, decision.status().ToString().c_str());
      std::exit(1);
    }
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

int run(const std::string& name) {
  const auto& targets = builtinTargets();
  const auto target =
      std::find_if(targets.begin(), targets.end(), [&](const v1::Target& t) { return t.name() == name; });
  if (target == targets.end()) {
    std::fprintf(stderr, "no target %s: see `tessera targets`\n", name.c_str());
    return 1;
  }
  const Chip chip(*target);
  std::printf("%-14s %10s %10s\n", "chain", "blocks ms", "slices ms");
  for (const Row& row : rows()) {
    const double blocks = milliseconds(
        "blocks", row, [&] { return planBlocks(row.chain, static_cast<double>(chip.residentBytes(chip.second()))); });
    const double slices =
        milliseconds("slices", row, [&] { return decideSlices(row.chain, row.cut, chip, row.between); });
    std::printf("%-14s %10.3f %10.3f\n", row.name.c_str(), blocks, slices);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::compiler::fusion

int main(int argc, char** argv) { return tessera::compiler::fusion::run(argc > 1 ? argv[1] : "cascadelake"); }
