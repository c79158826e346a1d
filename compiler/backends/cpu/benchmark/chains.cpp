// Chains of products (thesis, table 3.5), run slice by slice and in phases: GFLOP/s of both, one thread, measured
// alternately, fastest round of each. Not a test.
//   chain_benchmark [G2|rows|windows] [options], see --help
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/chain_text.h"
#include "proto/support/cli11.h"

namespace tessera::compiler::codegen::benchmark {
namespace {

using codegen::LoadedUnit;
using testing::Tensor;
using testing::Tiling;
using testing::WorkloadText;

struct Chain {
  const char* name;
  int64_t batch, m, n, k, l;
};

constexpr Chain kChains[] = {
    {"G1", 8, 512, 512, 64, 64},        {"G2", 12, 512, 512, 64, 64},         {"G3", 16, 512, 512, 64, 64},
    {"G4", 12, 256, 256, 64, 64},       {"G5", 16, 256, 256, 64, 64},         {"G6", 16, 256, 256, 80, 80},
    {"G7", 12, 208, 208, 64, 64},       {"G8", 16, 208, 208, 64, 64},         {"G9", 16, 208, 208, 80, 80},
    {"G10", 1, 512, 256, 64, 64},       {"G11", 1, 768, 384, 64, 64},         {"G12", 1, 1024, 512, 64, 64},
    {"BERT-128", 12, 128, 128, 64, 64}, {"LONG-2048", 2, 2048, 2048, 64, 64}, {"LONG-8192", 1, 2048, 8192, 64, 64}};

double seconds(LoadedUnit& unit, const std::vector<void*>& operands, int repeats) {
  auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  for (int i = 0; i < repeats; ++i) unit.run(operands, 1);
  return (now() - start) / repeats;
}

struct Operands {
  explicit Operands(const std::vector<int64_t>& floats) {
    for (int64_t count : floats) {
      storage.emplace_back(count + 16);
      auto* data = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(storage.back().data()) + 63) / 64 * 64);
      for (int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(i * 7 % 17) * 0.0625F - 0.5F;
      pointers.push_back(data);
    }
  }
  std::vector<std::vector<float>> storage;
  std::vector<void*> pointers;
};

/// The tiling that requests phases instead of regions.
Tiling phases() { return {{"phases", 0}}; }

/// Builds `ir` once per tiling (an empty one: the code generator's choice) and measures them alternately.
void measure(const std::string& name, const std::string& ir, const std::vector<int64_t>& floats, double flops,
             const std::vector<Tiling>& tilings, int rounds, const std::string& emit) {
  Operands operands(floats);
  std::vector<std::unique_ptr<LoadedUnit>> units;
  std::vector<std::string> strategies;
  for (const Tiling& tiling : tilings) {
    auto built = testing::buildByDefault(
        hostUnit(ir), tiling == phases() ? ScheduleRequest{.row_regions = false} : testing::slicesOf(tiling));
    if (!built.ok()) {
      std::printf("%-10s %s\n", name.c_str(), std::string(built.status().message()).c_str());
      return;
    }
    if (!emit.empty()) std::ofstream(emit, std::ios::binary) << built->object();
    units.push_back(std::move(*LoadedUnit::load(*built)));
    const auto& info = built->info();
    strategies.push_back(std::to_string(info.phases_size()) + " phases, " +
                         info.phases(info.phases_size() - 1).strategy() + ", scratch " +
                         std::to_string(info.scratch_bytes() >> 10) + " KiB");
  }
  std::vector<double> best(units.size(), 1e9);
  const int repeats = std::max(1, static_cast<int>(0.004 / seconds(*units[0], operands.pointers, 1)));
  for (int round = 0; round < rounds; ++round)
    for (size_t u = 0; u < units.size(); ++u)
      best[u] = std::min(best[u], seconds(*units[u], operands.pointers, repeats));
  for (size_t u = 0; u < units.size(); ++u)
    std::printf("%-20s %8.1f us %8.1f GFLOP/s  %5.2fx  %s\n", name.c_str(), best[u] * 1e6, flops / best[u] * 1e-9,
                best[0] / best[u], strategies[u].c_str());
  std::fflush(stdout);
}

std::string layerNormalization(int64_t rows, int64_t columns) {
  WorkloadText text;
  const std::vector<int64_t> shape{rows, columns};
  const std::string id = "d0, d1", row = "d0";
  const Tensor x = text.argument(shape), scale = text.argument({columns}), shift = text.argument({columns});
  const std::string count = "%n = arith.constant " + std::to_string(columns) + ".0 : f32\n    ";
  const Tensor sum = text.generic({x}, {id, row}, text.fill({rows}, "0.0"), 2, "pr", "%r = arith.addf %o, %i0 : f32");
  const Tensor centered = text.generic({x, sum}, {id, row, id}, text.empty(shape), 2, "",
                                       count + "%m = arith.divf %i1, %n : f32\n    %r = arith.subf %i0, %m : f32");
  const Tensor squares = text.generic({centered}, {id, row}, text.fill({rows}, "0.0"), 2, "pr",
                                      "%q = arith.mulf %i0, %i0 : f32\n    %r = arith.addf %o, %q : f32");
  const Tensor inverse = text.generic({squares}, {row, row}, text.empty({rows}), 1, "",
                                      count +
                                          "%e = arith.constant 1.0e-5 : f32\n    %c = arith.constant 1.0 : f32\n    %v "
                                          "= arith.divf %i0, %n : f32\n    %w = arith.addf %v, %e : f32\n    %s = "
                                          "math.sqrt %w : f32\n    %r = arith.divf %c, %s : f32");
  const Tensor y = text.generic({centered, inverse, scale, shift}, {id, row, "d1", "d1", id}, text.empty(shape), 2, "",
                                "%a = arith.mulf %i0, %i1 : f32\n    %b = arith.mulf %a, %i2 : f32\n    %r = "
                                "arith.addf %b, %i3 : f32");
  return text.finish({y});
}

/// Depthwise convolution: one channel per filter, [n, h, w, c] padded by one.
Tensor depthwise(WorkloadText& text, const Tensor& x, const Tensor& filter) {
  const Tensor padded = text.pad(x, {0, 1, 1, 0}, {0, 1, 1, 0}, "0.0");
  return text.generic({padded, filter}, {"d0, d1 + d4, d2 + d5, d3", "d4, d5, d3", "d0, d1, d2, d3"},
                      text.fill(x.shape, "0.0"), 6, "pppprr", testing::kMultiplyAdd);
}

Tensor pooled(WorkloadText& text, const Tensor& x) {
  return text.generic({x, text.empty({2, 2})}, {"d0, d1 * 2 + d3, d2 * 2 + d4, d5", "d3, d4", "d0, d1, d2, d5"},
                      text.fill({x.shape[0], x.shape[1] / 2, x.shape[2] / 2, x.shape[3]}, "0xFF800000"), 6, "ppprrp",
                      "%r = arith.maximumf %i0, %o : f32");
}

/// Convolutions of one image in slices of a few rows: halos recomputed, compared with halos kept from slice to slice.
void measureWindows(int rounds, const std::string& emit) {
  constexpr int64_t kSize = 56;
  for (const std::string name : {"conv-conv-pool", "bottleneck", "inverted"}) {
    WorkloadText text;
    std::vector<int64_t> floats;
    double flops = 0;
    auto argument = [&](const std::vector<int64_t>& shape) {
      floats.push_back(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
      return text.argument(shape);
    };
    auto convolved = [&](const Tensor& x, int64_t kernel, int64_t filters) {
      flops += 2.0 * kSize * kSize * static_cast<double>(kernel * kernel * x.shape[3] * filters);
      return relu(text, convolution(text, x, argument({kernel, kernel, x.shape[3], filters}), kernel / 2));
    };
    Tensor y;
    if (name == "conv-conv-pool") {
      y = pooled(text, convolved(convolved(argument({1, kSize, kSize, 32}), 3, 32), 3, 32));
    } else if (name == "bottleneck") {
      y = convolved(convolved(convolved(argument({1, kSize, kSize, 256}), 1, 64), 3, 64), 1, 256);
    } else {
      const Tensor wide = convolved(argument({1, kSize, kSize, 24}), 1, 144);
      flops += 2.0 * kSize * kSize * 9 * 144;
      y = convolved(relu(text, depthwise(text, wide, argument({3, 3, 144}))), 1, 24);
    }
    const int64_t rows = y.shape[1];
    floats.push_back(rows * y.shape[2] * y.shape[3]);
    std::vector<Tiling> tilings{phases()};
    for (const int64_t tile : {1, 2, 4, 7, 14})
      for (const bool kept : {false, true})
        tilings.push_back(kept ? Tiling{{"d1", rows}, {"d1", tile}} : Tiling{{"d1", tile}});
    measure(name, text.finish({y}), floats, flops, tilings, rounds, emit);
  }
}

int run(int argc, char** argv) {
  std::string only, emit, mask = "none";
  int rounds = 15, softmaxes = -1;
  std::vector<std::string> tiles;
  CLI::App app("Chains of products slice by slice beside the same workload in phases");
  app.add_option("name", only,
                 "one chain; rows: softmax and layer normalization; windows: convolutions, with halos "
                 "computed again and kept");
  app.add_option("--softmax", softmaxes, "only chains with it, or only those without")->check(CLI::Range(0, 1));
  app.add_option("--tile", tiles, "loops and their tiles: d0=1,d1=64[,r0=128]; may be repeated")
      ->expected(1)
      ->take_all();
  app.add_option("--mask", mask, "causal: none, read from memory, or by positions, whose keys are skipped")
      ->check(CLI::IsMember({"none", "read", "positions"}));
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1 << 20));
  app.add_option("--emit", emit, "where the object of the last workload is written");
  CLI11_PARSE(app, argc, argv);
  std::vector<Tiling> tilings;
  for (const std::string& tile : tiles) {
    Tiling& tiling = tilings.emplace_back();
    for (absl::string_view part : absl::StrSplit(tile, ',', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
      if (!absl::SimpleAtoi(pair.second, &tiling.emplace_back(pair.first, 0).second)) {
        std::fprintf(stderr, "--tile: found \"%s\"; accepted: a loop, '=' and its tile\n", std::string(part).c_str());
        return 2;
      }
    }
  }
  if (only == "windows") {
    measureWindows(rounds, emit);
    return 0;
  }
  if (only == "rows") {
    for (auto [batch, rows, columns] : {std::array<int64_t, 3>{12, 128, 128}, {12, 512, 512}, {1, 128, 1000}}) {
      WorkloadText text;
      const Tensor y = softmax(text, text.argument({batch, rows, columns}));
      const int64_t count = batch * rows * columns;
      measure("softmax", text.finish({y}), {count, count}, static_cast<double>(count), {phases(), {}}, rounds, emit);
    }
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{128, 768}, {512, 768}})
      measure("layer norm", layerNormalization(rows, columns), {rows * columns, columns, columns, rows * columns},
              static_cast<double>(rows * columns), {phases(), {}}, rounds, emit);
    return 0;
  }
  if (tilings.empty())
    tilings = {{{"d0", 1}, {"d1", 48}}, {{"d0", 1}, {"d1", 96}}, {{"d0", 1}, {"d1", 96}, {"r0", 128}}};
  tilings.insert(tilings.begin(), Tiling{});
  for (const Chain& chain : kChains) {
    if (!only.empty() && only != chain.name) continue;
    for (int with_softmax : {0, 1}) {
      if (softmaxes >= 0 && softmaxes != with_softmax) continue;
      const auto [name, batch, m, n, k, l] = chain;
      WorkloadText text;
      const Tensor a = text.argument({batch, m, k}), b = text.argument({batch, k, n}), c = text.argument({batch, n, l});
      Tensor s = batchProduct(text, a, b);
      const std::string id = "d0, d1, d2";
      std::vector<int64_t> floats{batch * m * k, batch * k * n, batch * n * l};
      if (mask == "read") {
        s = text.generic({s, text.argument({m, n})}, {id, "d1, d2", id}, text.empty(s.shape), 3, "",
                         "%r = arith.addf %i0, %i1 : f32");
        floats.push_back(m * n);
      } else if (mask == "positions") {
        s = text.generic({s}, {id, id}, text.empty(s.shape), 3, "",
                         "%low = arith.constant 0xFF800000 : f32\n    %row = linalg.index 1 : index\n    %column = "
                         "linalg.index 2 : index\n    %seen = arith.cmpi ule, %column, %row : index\n    %r = "
                         "arith.select %seen, %i0, %low : f32");
      }
      if (with_softmax) s = softmax(text, s);
      floats.push_back(batch * m * l);
      std::vector<Tiling> mine;
      for (const Tiling& tiling : tilings)
        if (with_softmax || tiling.empty() || tiling.back().first != "r0") mine.push_back(tiling);
      measure(std::string(name) + (with_softmax ? " softmax" : ""), text.finish({batchProduct(text, s, c)}), floats,
              2.0 * static_cast<double>(batch * m * n * (k + l)), mine, rounds, emit);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tessera::compiler::codegen::benchmark

int main(int argc, char** argv) { return tessera::compiler::codegen::benchmark::run(argc, argv); }
