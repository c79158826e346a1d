#include "compiler/backends/cpu/testing/tree_workloads.h"

#include <iterator>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/chain_text.h"
#include "compiler/backends/cpu/testing/random_workload.h"
#include "compiler/backends/cpu/testing/tile_emulation.h"
#include "compiler/backends/cpu/testing/winograd_text.h"

namespace tessera::compiler::codegen::testing {
namespace {

int64_t pick(std::mt19937& random, std::initializer_list<int64_t> values) {
  return values.begin()[random() % values.size()];
}

TreeWorkload product(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = pick(random, {1, 7, 40, 61}), n = pick(random, {5, 33, 64, 130}),
                k = pick(random, {3, 16, 41, 700});
  const bool transposed = random() % 2 == 0;
  Tensor c = text.generic({text.argument({m, k}), text.argument(transposed ? std::vector{n, k} : std::vector{k, n})},
                          {"d0, d2", transposed ? "d1, d2" : "d2, d1", "d0, d1"}, text.fill({m, n}, "0.0"), 3, "ppr",
                          kMultiplyAdd);
  if (random() % 2 == 0)
    c = text.generic({c, text.argument({n})}, {"d0, d1", "d1", "d0, d1"}, text.empty({m, n}), 2, "",
                     "%r = arith.addf %i0, %i1 : f32");
  return {"product", text.finish({relu(text, c)})};
}

TreeWorkload elementwise(std::mt19937& random) {
  WorkloadText text;
  const int64_t a = pick(random, {1, 3, 8, 17}), b = pick(random, {2, 31, 64, 100});
  const Tensor x = text.argument({a, b});
  const Tensor turned =
      text.generic({x}, {"d1, d0", "d0, d1"}, text.empty({b, a}), 2, "", "%r = arith.mulf %i0, %i0 : f32");
  const Tensor sum =
      text.generic({turned}, {"d0, d1", "d0"}, text.fill({b}, "0.0"), 2, "pr", "%r = arith.addf %i0, %o : f32");
  return {"elementwise", text.finish({turned, sum})};
}

TreeWorkload rows(std::mt19937& random) {
  WorkloadText text;
  const Tensor x = text.argument({2, pick(random, {9, 24, 130}), pick(random, {5, 40, 77})});
  return {"softmax", text.finish({softmax(text, x)})};
}

/// Two products, mostly with a softmax between them, with enough rows or keys for prefetches.
TreeWorkload chain(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = pick(random, {20, 37, 64}), n = pick(random, {24, 64, 200}), k = pick(random, {8, 24});
  const bool transposed = random() % 2 == 0;
  const Tensor b = text.argument(transposed ? std::vector<int64_t>{2, n, k} : std::vector<int64_t>{2, k, n});
  const Tensor scores = batchProduct(text, text.argument({2, m, k}), b, transposed);
  const bool with_softmax = random() % 3 != 0;
  const Tensor y =
      batchProduct(text, with_softmax ? softmax(text, scores) : relu(text, scores), text.argument({2, n, 20}));
  Tiling tiling{{"d0", 1}, {"d1", pick(random, {7, 8, 16})}};
  if (with_softmax && random() % 2 == 0) tiling.emplace_back("r0", 10);
  return {"chain", text.finish({y}), slicesOf(tiling)};
}

/// The same with rows that see the keys before them only.
TreeWorkload masked(std::mt19937& random) {
  const Chain chain{1,     pick(random, {40, 96}), pick(random, {96, 130}), 8, pick(random, {5, 16}),
                    "f32", random() % 2 == 0};
  Tiling tiling{{"d1", pick(random, {8, 16})}};
  if (random() % 2 == 0) tiling.emplace_back("r0", 16);
  return {"masked chain", attentionMaskedBy(causal(chain.n - chain.m), chain), slicesOf(tiling)};
}

TreeWorkload window(std::mt19937& random) {
  WorkloadText text;
  const Tensor x = text.argument({1, pick(random, {12, 17}), 9, pick(random, {3, 16})});
  const Tensor first = relu(text, convolution(text, x, text.argument({3, 3, x.shape[3], 20}), 1));
  const Tensor y = convolution(text, first, text.argument({1, 1, 20, 17}), 0);
  const ScheduleRequest requests[] = {
      {}, slicesOf({{"d1", 4}}), slicesOf({{"d1", 6}, {"d1", 2}})};  // independent slices, and slices that keep halos
  return {"windows", text.finish({y}), requests[random() % 3]};
}

/// A convolution in Winograd's three stages, all at once or a few rows of blocks at a time.
TreeWorkload winograd(std::mt19937& random) {
  WorkloadText text;
  const auto matrix = [&](const char* entries, int64_t height) {
    return text.raw(absl::StrCat("arith.constant dense<", entries, "> : tensor<", height, "x4xf32>"), {height, 4});
  };
  const Tensor to_input =
      matrix("[[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]", 4);
  const Tensor to_output = matrix("[[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, -1.0]]", 2);
  const WinogradText convolution{2,
                                 pick(random, {1, 2}),
                                 pick(random, {1, 3}),
                                 pick(random, {3, 4}),
                                 pick(random, {2, 5}),
                                 random() % 4 == 0 ? 8 : 16};
  const bool slices = random() % 2 == 0;
  return {"winograd", text.finish({convolution.write(text, to_input, to_output)}),
          slices ? slicesOf({{"d1", 2 * pick(random, {1, 2})}}) : ScheduleRequest{}};
}

/// [m, k] x [n, k] of bytes, or of bf16.
std::string narrowProduct(int64_t m, int64_t n, int64_t k, bool halves) {
  WorkloadText text;
  const std::string element = halves ? "bf16" : "i8", wide = halves ? "f32" : "i32", kind = halves ? "f" : "i";
  const std::string as = absl::StrCat(" : ", element, " to ", wide);
  const std::string body = absl::StrCat("%a = arith.", halves ? "extf" : "extui", " %i0", as, "\n    %b = arith.",
                                        halves ? "extf" : "extsi", " %i1", as, "\n    %m = arith.mul", kind,
                                        " %a, %b : ", wide, "\n    %r = arith.add", kind, " %o, %m : ", wide);
  const Tensor c =
      text.generic({text.argument({m, k}, element), text.argument({n, k}, element)}, {"d0, d2", "d1, d2", "d0, d1"},
                   text.fill({m, n}, halves ? "0.0" : "0", wide), 3, "ppr", body);
  return text.finish({c});
}

/// Bytes, or bf16 in pairs: products that an instruction of the target sums.
TreeWorkload grouped(std::mt19937& random) {
  const bool halves = random() % 2 == 0;
  const int64_t m = pick(random, {1, 13, 40}), n = pick(random, {7, 37, 64}), k = pick(random, {8, 68, 256});
  return {.name = "grouped", .ir = narrowProduct(m, n, k, halves), .tiles = random() % 2 == 0};
}

/// The same, large enough to fill tiles.
TreeWorkload tiled(std::mt19937& random) {
  const int64_t m = pick(random, {13, 40}), n = pick(random, {37, 64}), k = pick(random, {68, 256});
  return {.name = "tiled", .ir = narrowProduct(m, n, k, random() % 2 == 0), .tiles = true};
}

/// This machine's vector width in units of 256 bits: tiles and panels grow with it.
int64_t wide() { return std::max(1, hostUnit("").registers().vector_bits() / 256); }

/// Rows strided along the steps of the sum, copied block by block.
TreeWorkload copiedWithin(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = pick(random, {150, 168}) * wide(), n = pick(random, {100, 112}) * wide(), k = 24;
  const Tensor c = text.generic({text.argument({k, m}), text.argument({k, n})}, {"d2, d0", "d2, d1", "d0, d1"},
                                text.fill({m, n}, "0.0"), 3, "ppr", kMultiplyAdd);
  TreeWorkload workload{
      .name = "copied within", .ir = text.finish({c}), .near_bytes = 4 << 10, .second_bytes = (8 << 10) * wide()};
  workload.parameters.mutable_products()->set_pack_passes_if_evicted(2);
  return workload;
}

/// Rows that would share sets of the caches, copied to a padded distance.
TreeWorkload copiedApart(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = 16, n = pick(random, {100, 128}) * wide() * wide(), k = 128;
  const Tensor c = text.generic({text.argument({m, k}), text.argument({k, n})}, {"d0, d2", "d2, d1", "d0, d1"},
                                text.fill({m, n}, "0.0"), 3, "ppr", kMultiplyAdd);
  TreeWorkload workload{.name = "copied apart", .ir = text.finish({c}), .near_bytes = 4 << 10, .second_bytes = 8 << 10};
  workload.parameters.mutable_products()->set_pack_passes_if_evicted(2);
  workload.parameters.mutable_products()->set_max_reduction_block(64);
  workload.parameters.mutable_products()->set_long_reduction(64);
  return workload;
}

/// Two products whose slices share panels of one operand, the last slice being smaller; intermediate rows that would
/// share sets of the near level are padded.
TreeWorkload sharedPanels(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = pick(random, {37, 43}), n = 208, k = 24;
  const Tensor scores = batchProduct(text, text.argument({2, m, k}), text.argument({2, k, n}));
  const Tensor y = batchProduct(text, softmax(text, relu(text, scores)), text.argument({2, n, 20}));
  TreeWorkload workload{.name = "shared panels",
                        .ir = text.finish({y}),
                        .request = slicesOf({{"d0", 1}, {"d1", pick(random, {8, 16})}}),
                        .near_bytes = 4 << 10,
                        .second_bytes = 32 << 10};
  workload.parameters.mutable_products()->set_pack_rows(8);
  workload.parameters.mutable_products()->set_pack_rows_beyond_l2(8);
  return workload;
}

TreeWorkload largerThanCaches(const std::string& ir) {
  return {.name = "blocked", .ir = ir, .near_bytes = 4 << 10, .second_bytes = 32 << 10};
}

/// Products that are larger than the caches: rows in blocks.
TreeWorkload blocked(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = 520, n = pick(random, {200, 256}), k = 64;
  return largerThanCaches(
      text.finish({text.generic({text.argument({m, k}), text.argument({k, n})}, {"d0, d2", "d2, d1", "d0, d1"},
                                text.fill({m, n}, "0.0"), 3, "ppr", kMultiplyAdd)}));
}

/// The same with sums over blocks of channels.
TreeWorkload channels(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = 48, n = 32, k = pick(random, {16, 20});
  return largerThanCaches(text.finish(
      {text.generic({text.argument({k, m, 16}), text.argument({k, 16, n})}, {"d2, d0, d3", "d2, d3, d1", "d0, d1"},
                    text.fill({m, n}, "0.0"), 4, "pprr", kMultiplyAdd)}));
}

/// One filter per channel.
TreeWorkload depthwise(std::mt19937& random) {
  WorkloadText text;
  const int64_t side = pick(random, {7, 11}), channels = pick(random, {19, 32});
  const Tensor image = text.argument({1, side, side + 2, channels}), filter = text.argument({3, 3, channels});
  const Tensor y =
      text.named("depthwise_conv_2d_nhwc_hwc", {image, filter}, text.fill({1, side - 2, side, channels}, "0.0"),
                 "{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}");
  return {"depthwise", text.finish({y})};
}

/// Workloads in plain loops: rows selected by an operand, and a value read once for all.
TreeWorkload scalars(std::mt19937& random) {
  WorkloadText text;
  const int64_t rows = pick(random, {4, 9}), width = pick(random, {5, 16});
  const Tensor table = text.argument({rows, width});
  if (random() % 2 == 0) {
    const std::string zero = text.constant("0", "index");
    const Tensor first =
        text.raw("tensor.extract " + table.name + "[" + zero + ", " + zero + "] : " + table.type(), {});
    const Tensor y = text.generic({table}, {"d0, d1", "d0, d1"}, text.empty(table.shape), 2, "",
                                  "%r = arith.mulf %i0, " + first.name + " : f32");
    return {"sequence", text.finish({y})};
  }
  const Tensor which = text.argument({6}, "i64");
  const Tensor y =
      text.generic({which}, {"d0", "d0, d1"}, text.empty({6, width}), 2, "",
                   absl::StrCat("%n = arith.constant ", rows, " : i64\n    %z = arith.constant 0 : i64\n",
                                "    %neg = arith.cmpi slt, %i0, %z : i64\n    %up = arith.addi %i0, %n : i64\n",
                                "    %w = arith.select %neg, %up, %i0 : i64\n    %i = arith.index_cast %w : i64 to "
                                "index\n    %j = linalg.index 1 : index\n    %r = tensor.extract ",
                                table.name, "[%i, %j] : ", table.type()));
  return {.name = "gather", .ir = text.finish({y}), .integers = rows};
}

/// A random workload.
TreeWorkload drawn(std::mt19937& random) {
  const RandomWorkload workload = randomWorkload(random());
  return {
      .name = absl::StrCat("drawn ", workload.family), .ir = workload.ir, .low = workload.low, .high = workload.high};
}

constexpr TreeWorkload (*kClasses[])(std::mt19937&) = {
    product,  elementwise, rows,    chain,  window, winograd,     grouped,     tiled,        blocked,
    channels, depthwise,   scalars, masked, drawn,  copiedWithin, copiedApart, sharedPanels, drawn};

}  // namespace

int treeWorkloadClasses() { return static_cast<int>(std::size(kClasses)); }

TreeWorkload treeWorkload(unsigned seed) {
  std::mt19937 random(seed);
  TreeWorkload workload = kClasses[seed % std::size(kClasses)](random);
  if (random() % 2 == 0 && !workload.parameters.has_products()) {
    workload.near_bytes = 4 << 10;
    workload.second_bytes = 32 << 10;
  }
  return workload;
}

v1::BuildUnit unitOf(const TreeWorkload& workload) {
  v1::BuildUnit unit = hostUnit(workload.ir);
  if (workload.tiles) addTileInstructions(unit, /*alone=*/true);
  for (const auto& [name, bytes] : {std::pair("L1", workload.near_bytes), {"L2", workload.second_bytes}}) {
    v1::MemoryLevel* level = unit.add_memory();
    level->set_name(name);
    level->set_capacity_bytes(bytes);
  }
  *unit.mutable_cost_parameters() = workload.parameters;
  return unit;
}

void checkTree(const TreeWorkload& workload, const v1::Schedule& schedule, unsigned seed) {
  std::optional<TileEmulation> emulation;
  if (workload.tiles) emulation.emplace();
  checkWorkload(workload.ir, {.seed = 4 * seed,  // for this machine's registers
                              .low = workload.low,
                              .high = workload.high,
                              .integer_range = workload.integers,
                              .adjust =
                                  [&](v1::BuildUnit& unit) {
                                    if (workload.tiles) addTileInstructions(unit, /*alone=*/true);
                                    *unit.mutable_memory() = unitOf(workload).memory();
                                    *unit.mutable_cost_parameters() = workload.parameters;
                                  },
                              .request = workload.request,
                              .edit = [&](v1::Schedule& chosen) { chosen = schedule; }});
}

}  // namespace tessera::compiler::codegen::testing
