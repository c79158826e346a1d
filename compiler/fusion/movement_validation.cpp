// Predicted against simulated data movement of the matrix product chain M = N = K = L (thesis, figure 3.11 d-f).
//
//   movement_validation [--extent 2048] [--choices 200] [--capacity 1048576] [--ways 16] [--csv FILE]
//
// There are no hardware counters to ask here: the block program's lines run through a set-associative LRU cache of
// the given geometry (testing/block_program.h). "Measured" is what is filled into it. Prints per setting R2 against
// y = x, the squared correlation, and how the analysis' own solution stands among all choices. Exit status 1 when a
// squared correlation (the R2 of the figure) is under 0.97.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "compiler/fusion/block_planner.h"
#include "compiler/fusion/testing/block_program.h"

namespace tessera::compiler::fusion {
namespace {

struct Options {
  int64_t extent = 2048;
  int choices = 200;
  int64_t capacity = 1 << 20;
  int ways = 16;
  std::string csv;
};

/// Of the cache, what choices and plans may take: limited associativity and replacement of the least recently used
/// line lose part of it, and the block of the intermediate must outlive the change from one member to the other.
constexpr double kShare = 0.75;

struct Setting {
  const char* name;
  const char* order;
  bool fused;
};
// mlnk moves what mlkn moves by algorithm 1: n and k are private to one member each. The last row is an order that
// must retain a row of blocks of the intermediate.
constexpr Setting kSettings[] = {{"d: mlkn", "mlkn", true},
                                 {"e: mlnk", "mlnk", true},
                                 {"f: mlkn, not fused", "mlkn", false},
                                 {"+: mkln, C retained", "mkln", true}};

struct Sample {
  double predicted = 0, measured = 0;
};

std::vector<Order> ordersOf(const std::vector<Chain>& parts, const std::string& letters) {
  std::vector<Order> orders;
  for (const Chain& part : parts) {
    orders.emplace_back();
    for (char letter : letters)
      if (const int loop = part.loopNamed(std::string(1, letter)); loop >= 0) orders.back().push_back(loop);
  }
  return orders;
}

Tiles tilesOf(const Chain& part, const Chain& chain, const Tiles& tiles) {
  Tiles own;
  for (const Loop& loop : part.loops) own.push_back(tiles[chain.loopNamed(loop.name)]);
  return own;
}

/// Runs one choice, members in turn where they are not fused; nothing when it does not fit.
bool measure(const std::vector<Chain>& parts, const std::vector<Order>& orders, const Chain& chain, const Tiles& tiles,
             const Options& options, Sample& sample) {
  sample = {};
  for (size_t p = 0; p < parts.size(); ++p) {
    const Movement moved = analyse(parts[p], orders[p], tilesOf(parts[p], chain, tiles));
    if (moved.memory_bytes > kShare * static_cast<double>(options.capacity)) return false;
    sample.predicted += moved.volume_bytes;
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    CacheSimulator cache({{options.capacity, options.ways, 64}});
    trace({parts[p], orders[p], tilesOf(parts[p], chain, tiles)}, cache);
    sample.measured += 64.0 * static_cast<double>(cache.fills(0));
  }
  return true;
}

int run(const Options& options) {
  std::ofstream csv;
  if (!options.csv.empty()) {
    csv.open(options.csv);
    csv << "setting,tile_m,tile_l,tile_k,tile_n,predicted_bytes,simulated_bytes\n";
  }
  std::printf("GEMM chain M=N=K=L=%lld, cache of %lld bytes, %d ways, 64-byte lines, LRU; %d block choices each\n",
              static_cast<long long>(options.extent), static_cast<long long>(options.capacity), options.ways,
              options.choices);
  std::printf("%-22s %8s %8s %12s %12s %12s\n", "setting", "R2(y=x)", "r^2", "best GB", "planned GB", "planned/best");
  const Chain chain = gemmChain(1, options.extent, options.extent, options.extent, options.extent, 8);
  bool fine = true;
  for (const Setting& setting : kSettings) {
    const std::vector<Chain> parts = setting.fused ? std::vector<Chain>{chain} : unfused(chain);
    const std::vector<Order> orders = ordersOf(parts, setting.order);
    std::mt19937 random(2024);
    // Block sizes are drawn evenly in their logarithm: from a quarter of the square that fits three times up to half
    // of the extent.
    const double square = std::sqrt(static_cast<double>(options.capacity) / 12);
    std::uniform_real_distribution<double> exponent(std::log2(square / 4),
                                                    std::log2(static_cast<double>(options.extent) / 2));
    std::vector<Sample> samples;
    Sample sample;
    while (static_cast<int>(samples.size()) < options.choices) {
      Tiles tiles(chain.loops.size());
      for (int64_t& tile : tiles) tile = static_cast<int64_t>(std::exp2(exponent(random)));
      if (!measure(parts, orders, chain, tiles, options, sample)) continue;
      samples.push_back(sample);
      if (csv.is_open())
        csv << '"' << setting.name << "\"," << tiles[0] << ',' << tiles[1] << ',' << tiles[2] << ',' << tiles[3] << ','
            << sample.predicted << ',' << sample.measured << '\n';
    }
    double mean_x = 0, mean_y = 0, least = INFINITY;
    for (const Sample& s : samples) {
      mean_x += s.predicted / static_cast<double>(samples.size());
      mean_y += s.measured / static_cast<double>(samples.size());
      least = std::min(least, s.measured);
    }
    double xx = 0, yy = 0, xy = 0, residual = 0;
    for (const Sample& s : samples) {
      xx += (s.predicted - mean_x) * (s.predicted - mean_x);
      yy += (s.measured - mean_y) * (s.measured - mean_y);
      xy += (s.predicted - mean_x) * (s.measured - mean_y);
      residual += (s.measured - s.predicted) * (s.measured - s.predicted);
    }
    const double identity = 1 - residual / yy, correlation = xy * xy / (xx * yy);
    fine = fine && correlation >= 0.97;
    // Where the solution of the analysis lands in the simulation.
    Sample planned;
    for (size_t p = 0; p < parts.size(); ++p) {
      auto plan = planBlocksFor(parts[p], orders[p], kShare * static_cast<double>(options.capacity));
      if (!plan.ok()) {
        std::fprintf(stderr, "%s\n", std::string(plan.status().message()).c_str());
        return 1;
      }
      CacheSimulator cache({{options.capacity, options.ways, 64}});
      trace({parts[p], orders[p], plan->tiles}, cache);
      planned.measured += 64.0 * static_cast<double>(cache.fills(0));
    }
    std::printf("%-22s %8.4f %8.4f %12.4f %12.4f %12.3f\n", setting.name, identity, correlation, least * 1e-9,
                planned.measured * 1e-9, planned.measured / least);
    std::fflush(stdout);
  }
  return fine ? 0 : 1;
}

}  // namespace
}  // namespace tessera::compiler::fusion

int main(int argc, char** argv) {
  tessera::compiler::fusion::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--extent") {
      options.extent = std::atoll(argv[i + 1]);
    } else if (name == "--choices") {
      options.choices = std::atoi(argv[i + 1]);
    } else if (name == "--capacity") {
      options.capacity = std::atoll(argv[i + 1]);
    } else if (name == "--ways") {
      options.ways = std::atoi(argv[i + 1]);
    } else if (name == "--csv") {
      options.csv = argv[i + 1];
    } else {
      std::fprintf(stderr, "movement_validation: unknown option %s\n", name.c_str());
      return 2;
    }
  }
  return tessera::compiler::fusion::run(options);
}
