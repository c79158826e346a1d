// Nested blocks around a product's tiles: every order and size computes the same, spatial or temporal, with copies at
// either level.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/chain_text.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/product_tree.h"
#include "compiler/backends/cpu/testing/tree_workloads.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen::testing {
namespace {

/// Distributes the first `loops` loops of the product's leaf over cores.
void bind(v1::Schedule& schedule, int loops) {
  v1::Tile& leaf = productLeaf(schedule);
  for (int at = 0; at < std::min(loops, leaf.loops_size()) && leaf.loops(at).dimension().front() == 'i'; ++at)
    leaf.mutable_loops(at)->set_unit(std::string(words::kCore));
}

class NestedBlocks : public ::testing::TestWithParam<unsigned> {};

TEST_P(NestedBlocks, OfAnySizeComputeTheSame) {
  std::mt19937 random(GetParam() + 9000);
  const auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  const int64_t batch = pick({1, 1, 2}), m = pick({53, 64, 97}), n = pick({70, 128, 211}), k = pick({24, 41, 64});
  WorkloadText text;
  const std::vector<int64_t> shape = batch > 1 ? std::vector{batch, m, n} : std::vector{m, n};
  const auto of = [&](int64_t rows, int64_t columns) {
    return text.argument(batch > 1 ? std::vector{batch, rows, columns} : std::vector{rows, columns});
  };
  const std::vector<std::string> maps = batch > 1 ? std::vector<std::string>{"d0, d1, d3", "d0, d3, d2", "d0, d1, d2"}
                                                  : std::vector<std::string>{"d0, d2", "d2, d1", "d0, d1"};
  Tensor c = text.generic({of(m, k), of(k, n)}, maps, text.fill(shape, "0.5"), batch > 1 ? 4 : 3,
                          batch > 1 ? "pppr" : "ppr", kMultiplyAdd);
  if (random() % 2 == 0) c = relu(text, c);
  ProductTree product{.batch = batch, .m = m, .n = n, .k = k, .rows = pick({2, 3, 4}), .vectors = pick({1, 2})};
  product.block_m = pick({6, 8, 12});
  product.block_n = pick({0, 32, 40});
  product.block_k = pick({0, 4, 5});
  product.far_m = product.block_m * pick({2, 3});
  product.far_n = product.block_n * pick({2, 3});
  product.far_k = product.block_k * pick({0, 2, 3});
  product.pack_b = random() % 2 == 0;
  product.copy_a = random() % 2 == 0;
  product.copy_far = random() % 2 == 0;
  product.pack_a = !product.copy_a && random() % 2 == 0;
  const int spatial = static_cast<int>(random() % 4);
  std::string tree;
  checkWorkload(text.finish({c}), {.seed = GetParam(), .edit = [&](v1::Schedule& schedule) {
                                     replaceProduct(schedule, product);
                                     if (!product.copy_a) bind(schedule, spatial);
                                     tree = printSchedule(schedule);
                                   }});
  if (HasFailure()) ADD_FAILURE() << tree;
}

INSTANTIATE_TEST_SUITE_P(Seeds, NestedBlocks, ::testing::Range(0U, 48U));

using Loops = std::vector<std::pair<std::string, int64_t>>;

/// The status of a tree of C[96, 128] = A[96, 64] B[64, 128] whose leaf has these blocks and tiles.
absl::Status followed(Loops loops) {
  WorkloadText text;
  const Tensor c =
      text.named("matmul", {text.argument({96, 64}), text.argument({64, 128})}, text.fill({96, 128}, "0.0"));
  v1::BuildUnit unit = hostUnit(text.finish({c}));
  TESSERA_ASSIGN_OR_RETURN(auto schedule, defaultSchedule(unit));
  replaceProduct(schedule, {.m = 96, .n = 128, .k = 64, .rows = 2, .vectors = 1});
  v1::Tile& leaf = productLeaf(schedule);
  leaf.clear_loops();
  loops.insert(loops.end(), {{"i0", 2}, {"i1", leaf.kernel().lanes()}});
  for (const auto& [dimension, step] : loops) {
    v1::Loop* loop = leaf.add_loops();
    loop->set_dimension(dimension);
    loop->set_step(step);
  }
  *unit.mutable_schedule() = schedule;
  return checkSchedule(unit);
}

TEST(NestedBlocks, AreWholePartsOfEachOtherAndNotTooMany) {
  for (const Loops& blocks :
       {Loops{{"i0", 48}, {"i0", 12}, {"i0", 4}}, {{"r2", 32}, {"i0", 48}, {"r2", 16}, {"i0", 12}}})
    EXPECT_TRUE(followed(blocks).ok()) << followed(blocks);
  const auto refused = [](const Loops& blocks, const std::string& why) {
    const absl::Status status = followed(blocks);
    EXPECT_EQ(failureOf(status).reason(), v1::Failure::INVALID_SCHEDULE) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(why));
  };
  refused({{"i0", 48}, {"i0", 20}}, "a divisor of 48");
  refused({{"i0", 24}, {"i0", 48}}, "a divisor of 24");
  refused({{"i0", 24}, {"i0", 24}}, "a divisor of 24");
  refused({{"r2", 32}, {"r2", 12}}, "a divisor of 32");
  refused({{"i0", 64}, {"i0", 32}, {"i0", 16}, {"i0", 8}}, "3 levels of blocks at most");
}

// By the analysis, on odd shapes, for caches of 8, 48 and 256 KB.
TEST(NestedBlocks, OfTheAnalysisComputeTheSame) {
  int nested = 0;
  unsigned seed = 0;
  for (const auto& [m, n, k] : {std::tuple{311, 400, 67}, {701, 397, 50}, {450, 700, 93}}) {
    WorkloadText text;
    const Tensor c = text.named("matmul", {text.argument({m, k}), text.argument({k, n})}, text.fill({m, n}, "0.0"));
    checkWorkload(text.finish({relu(text, c)}), {.seed = ++seed,
                                                 .adjust =
                                                     [](v1::BuildUnit& unit) {
                                                       for (const int64_t bytes : {8 << 10, 48 << 10, 256 << 10, 0})
                                                         unit.add_memory()->set_capacity_bytes(bytes);
                                                     },
                                                 .request = {.nested = true},
                                                 .edit =
                                                     [&](v1::Schedule& schedule) {
                                                       // In addition to the loops over tiles: blocks of both caches.
                                                       nested += productLeaf(schedule).loops_size() - 2;
                                                     }});
  }
  EXPECT_EQ(nested, 3 * 2);
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
