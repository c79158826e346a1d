// Compares predicted with simulated data movement of the matrix product chain M = N = K = L (thesis, figure 3.11 d-f).
//
// Instead of hardware counters, the block program's lines run through a set-associative LRU cache of the given geometry
// (testing/block_program.h). "Measured" is the number of fills of this cache; with --sample n, fills of every n-th set,
// times n. Prints per setting R2 against y = x, the squared correlation, and the rank of the analysis' solution among
// random choices and among all even splits of the loops. Exit status 1 if R2 of a setting of the figure is under 0.97
// or a solution moves more than 5 % more than the best even split. Blocks within blocks for two caches (equations 3.20,
// 3.21) are held to the same limits.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>

#include "compiler/fusion/nested_planner.h"
#include "compiler/fusion/testing/block_program.h"
#include "compiler/fusion/testing/thesis_chains.h"
#include "proto/support/cli11.h"

namespace tessera::compiler::fusion {
namespace {

struct Options {
  int64_t extent = 2048;
  int choices = 200;
  int64_t capacity = 1 << 20, near_capacity = 16 << 10;
  int ways = 16;
  int64_t sample = 1;  ///< every sample-th set of the cache is simulated
  std::string csv;
};

/// Fraction of the cache that choices and plans may use: limited associativity and LRU replacement lose part of it, and
/// the block of the intermediate must survive the change from one member to the other.
constexpr double kShare = 0.75;

struct Setting {
  const char* name;
  const char* order;
  bool fused;
  bool figure;  ///< one of the thesis' three
};
// mlnk and mlkn move the same by algorithm 1: n and k are each private to one member. The last row is an order that
// must retain a row of blocks of the intermediate. Software-managed memory holds it; an LRU cache evicts it while B
// streams through between two uses of a block.
constexpr Setting kSettings[] = {{"d: mlkn", "mlkn", true, true},
                                 {"e: mlnk", "mlnk", true, true},
                                 {"f: mlkn, not fused", "mlkn", false, true},
                                 {"+: mkln, C retained", "mkln", true, false}};
/// Number of even splits with the least predicted movement that are simulated to find the best one.
constexpr size_t kSimulatedSplits = 24;

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

/// Returns the predicted movement of one choice, with members one after another if not fused; infinite if it does not
/// fit.
double predict(const std::vector<Chain>& parts, const std::vector<Order>& orders, const Chain& chain,
               const Tiles& tiles, const Options& options) {
  double volume = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Movement moved = analyse(parts[p], orders[p], tilesOf(parts[p], chain, tiles));
    if (moved.memory_bytes > kShare * static_cast<double>(options.capacity)) return INFINITY;
    volume += moved.volume_bytes;
  }
  return volume;
}

/// Runs one choice through the cache; false if it does not fit.
bool measure(const std::vector<Chain>& parts, const std::vector<Order>& orders, const Chain& chain, const Tiles& tiles,
             const Options& options, Sample& sample) {
  sample = {predict(parts, orders, chain, tiles, options), 0};
  if (!std::isfinite(sample.predicted)) return false;
  for (size_t p = 0; p < parts.size(); ++p) {
    CacheSimulator cache({{options.capacity, options.ways, 64}}, options.sample);
    trace({parts[p], orders[p], tilesOf(parts[p], chain, tiles)}, cache);
    sample.measured += 64.0 * static_cast<double>(cache.fills(0));
  }
  return true;
}

/// Returns the best of all even splits, by prediction and by simulation separately. Loops private to one member (k, n)
/// are tried in powers of two, since their blocks replace only themselves.
Sample exhaustive(const std::vector<Chain>& parts, const std::vector<Order>& orders, const Chain& chain,
                  const Options& options) {
  std::vector<std::vector<int64_t>> sizes;
  for (const Loop& loop : chain.loops) {
    std::vector<int64_t>& list = sizes.emplace_back();
    const bool shared = std::ranges::all_of(chain.statements, [&](const Statement& member) {
      return std::ranges::count(member.loops, &loop - chain.loops.data()) > 0;
    });
    for (int64_t blocks = 1; blocks <= loop.extent / loop.min_tile; blocks = shared ? blocks + 1 : blocks * 2)
      list.push_back((loop.extent + blocks - 1) / blocks);
    list.push_back(loop.min_tile);
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  std::vector<std::pair<double, Tiles>> splits;
  for (int64_t m : sizes[0])
    for (int64_t l : sizes[1])
      for (int64_t k : sizes[2])
        for (int64_t n : sizes[3])
          if (const double volume = predict(parts, orders, chain, {m, l, k, n}, options); std::isfinite(volume))
            splits.push_back({volume, {m, l, k, n}});
  std::ranges::sort(splits);
  if (splits.size() > kSimulatedSplits) splits.resize(kSimulatedSplits);
  Sample best{splits.front().first, INFINITY};
  for (const auto& [volume, tiles] : splits) {
    Sample sample;
    if (measure(parts, orders, chain, tiles, options, sample)) best.measured = std::min(best.measured, sample.measured);
  }
  return best;
}

struct Agreement {
  double identity;     ///< R2 against y = x
  double correlation;  ///< squared
};

Agreement agreementOf(const std::vector<Sample>& samples) {
  double mean_x = 0, mean_y = 0;
  for (const Sample& s : samples) {
    mean_x += s.predicted / static_cast<double>(samples.size());
    mean_y += s.measured / static_cast<double>(samples.size());
  }
  double xx = 0, yy = 0, xy = 0, residual = 0;
  for (const Sample& s : samples) {
    xx += (s.predicted - mean_x) * (s.predicted - mean_x);
    yy += (s.measured - mean_y) * (s.measured - mean_y);
    xy += (s.predicted - mean_x) * (s.measured - mean_y);
    residual += (s.measured - s.predicted) * (s.measured - s.predicted);
  }
  return {1 - residual / yy, xy * xy / (xx * yy)};
}

/// Returns the bytes that a nested program loads into both memories, farthest first.
std::array<double, 2> simulate(const Chain& chain, const NestedPlan& plan, const Options& options) {
  CacheSimulator caches({{options.near_capacity, options.ways, 64}, {options.capacity, options.ways, 64}},
                        options.sample);
  trace({.chain = chain, .order = plan.far.order, .tiles = plan.far.tiles, .within = plan.members}, caches);
  return {64.0 * static_cast<double>(caches.fills(1)), 64.0 * static_cast<double>(caches.fills(0))};
}

/// Whether blocks fit in a memory and use at least half of it: with more space left, a cache would still hold earlier
/// blocks.
bool fills(const Movement& movement, int64_t capacity) {
  const double most = kShare * static_cast<double>(capacity);
  return movement.memory_bytes <= most && movement.memory_bytes >= most / 2;
}

/// Returns random blocks within random blocks, of whole lines; nothing if they do not fill their memories.
std::optional<NestedPlan> drawNested(const Chain& chain, const Options& options, std::mt19937& random) {
  constexpr int64_t kLine = 16;
  const auto draw = [&](int64_t least, int64_t most) {
    const double exponent = std::uniform_real_distribution<double>(std::log2(least), std::log2(most))(random);
    return std::max(kLine, static_cast<int64_t>(std::exp2(exponent)) / kLine * kLine);
  };
  NestedPlan plan;
  for (const Loop& loop : chain.loops) plan.far.tiles.push_back(draw(64, loop.extent / 2));
  const std::vector<Chain> parts = unfused(chain);
  const std::vector<Order> far_orders = ordersOf(parts, "mlkn");
  plan.far.order = ordersOf({chain}, "mlkn")[0];
  plan.far.movement = analyse(chain, plan.far.order, plan.far.tiles);
  if (!fills(plan.far.movement, options.capacity)) return std::nullopt;
  for (size_t part = 0; part < parts.size(); ++part) {
    const LevelBlocks far{far_orders[part], tilesOf(parts[part], chain, plan.far.tiles), {}};
    LevelBlocks near{orderedLoops(parts[part]), {}, {}};
    std::ranges::shuffle(near.order, random);
    for (const int64_t tile : far.tiles) near.tiles.push_back(std::min(tile, draw(kLine, tile)));
    const std::vector<LoopStep> steps = stepsOf({far, near});
    if (!fills(movementInto(parts[part], steps, 0), options.near_capacity)) return std::nullopt;
    near.movement = movementInto(parts[part], steps, static_cast<double>(options.near_capacity));
    plan.members.push_back({parts[part], {near}});
  }
  return plan;
}

/// Two memories: prints, for each, the agreement of predicted and simulated movement over random blocks within blocks,
/// and the movement of equation 3.21's solution relative to the best of them. Returns false under the conditions of
/// run().
bool runNested(const Chain& chain, const Options& options) {
  std::mt19937 random(2025);
  std::array<std::vector<Sample>, 2> samples;
  // The near memory is filled eight times as fast, so that both take about as long.
  const std::vector<BlockMemory> memories = {{kShare * static_cast<double>(options.capacity), 1},
                                             {kShare * static_cast<double>(options.near_capacity), 8}};
  double least = INFINITY;
  while (static_cast<int>(samples[0].size()) < options.choices) {
    const auto plan = drawNested(chain, options, random);
    if (!plan) continue;
    double near = 0;
    for (const NestedMember& member : plan->members) near += member.levels[0].movement.volume_bytes;
    const auto measured = simulate(chain, *plan, options);
    samples[0].push_back({plan->far.movement.volume_bytes, measured[0]});
    samples[1].push_back({near, measured[1]});
    least = std::min(least, std::max(measured[0], measured[1] / 8));
  }
  const auto solved = planNested(chain, memories);
  if (!solved.ok()) {
    std::fprintf(stderr, "%s\n", std::string(solved.status().message()).c_str());
    return false;
  }
  const auto measured = simulate(chain, *solved, options);
  const double slowest = std::max(measured[0], measured[1] / 8);
  std::printf("nested blocks, %lld and %lld bytes:\n", static_cast<long long>(options.capacity),
              static_cast<long long>(options.near_capacity));
  bool fine = slowest <= 1.05 * least;
  for (size_t level = 0; level < 2; ++level) {
    const auto [identity, correlation] = agreementOf(samples[level]);
    fine = fine && identity >= 0.97;
    std::printf("  into the %-4s memory    %8.4f %8.4f %12.4f\n", level == 0 ? "far" : "near", identity, correlation,
                measured[level] * 1e-9);
  }
  std::printf("  the slower one: solution / best choice %.3f, solution / bound %.3f\n", slowest / least,
              solved->slowest / solved->bound);
  return fine;
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
  std::printf("%-22s %8s %8s %12s %12s %14s %14s\n", "setting", "R2(y=x)", "r^2", "planned GB", "/best choice",
              "/best predicted", "/best simulated");
  const Chain chain = gemmChain(1, options.extent, options.extent, options.extent, options.extent, 8);
  bool fine = true;
  for (const Setting& setting : kSettings) {
    const std::vector<Chain> parts = setting.fused ? std::vector<Chain>{chain} : unfused(chain);
    const std::vector<Order> orders = ordersOf(parts, setting.order);
    std::mt19937 random(2024);
    // Block sizes have a uniform logarithm, from a quarter of the square block that fits three times up to half the
    // extent.
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
    const double least = std::ranges::min(samples, {}, &Sample::measured).measured;
    const auto [identity, correlation] = agreementOf(samples);
    // Simulates the solution of the analysis.
    Sample planned;
    for (size_t p = 0; p < parts.size(); ++p) {
      auto plan = planBlocksFor(parts[p], orders[p], kShare * static_cast<double>(options.capacity));
      if (!plan.ok()) {
        std::fprintf(stderr, "%s\n", std::string(plan.status().message()).c_str());
        return 1;
      }
      CacheSimulator cache({{options.capacity, options.ways, 64}}, options.sample);
      planned.predicted += plan->movement.volume_bytes;
      trace({parts[p], orders[p], plan->tiles}, cache);
      planned.measured += 64.0 * static_cast<double>(cache.fills(0));
    }
    const Sample split = exhaustive(parts, orders, chain, options);
    if (setting.figure)
      fine = fine && identity >= 0.97 && planned.predicted <= 1.05 * split.predicted &&
             planned.measured <= 1.05 * split.measured;
    std::printf("%-22s %8.4f %8.4f %12.4f %12.3f %14.3f %14.3f\n", setting.name, identity, correlation,
                planned.measured * 1e-9, planned.measured / least, planned.predicted / split.predicted,
                planned.measured / split.measured);
    std::fflush(stdout);
  }
  return runNested(chain, options) && fine ? 0 : 1;
}

}  // namespace
}  // namespace tessera::compiler::fusion

int main(int argc, char** argv) {
  tessera::compiler::fusion::Options options;
  CLI::App app("Predicted against simulated data movement of a chain of matrix products");
  app.add_option("--extent", options.extent, "M = N = K = L")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  app.add_option("--choices", options.choices, "random blocks a setting")->capture_default_str();
  app.add_option("--capacity", options.capacity, "bytes of the cache")->capture_default_str();
  app.add_option("--near-capacity", options.near_capacity, "bytes of the nearer one of two caches")
      ->capture_default_str();
  app.add_option("--ways", options.ways, "associativity of the cache")->capture_default_str();
  app.add_option("--sample", options.sample, "one of so many sets is simulated")->capture_default_str();
  app.add_option("--csv", options.csv, "where every choice's figures are written");
  CLI11_PARSE(app, argc, argv);
  return tessera::compiler::fusion::run(options);
}
