// Transformer blocks as exporters write them: heads are split and merged, and keys transposed, without a copy.
#include "compiler/graph/graph.h"
#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

struct Block {
  int64_t rows = 8;
  int64_t heads = 2;
  int64_t depth = 16;
  bool one_projection = false;  ///< queries, keys and values are slices of one product (GPT-2)
  bool pre_norm = false;        ///< normalization before the branches (GPT-2, ViT) or after (BERT)
  int64_t width() const { return heads * depth; }
};

Value dense(ModelBuilder& b, Value x, int64_t from, int64_t to) {
  return b.addChannel(b.matmul(x, b.weight({from, to})), b.weight({to}));
}

/// [rows, width] -> [heads, rows, depth], or [heads, depth, rows] for keys.
Value split(ModelBuilder& b, const Block& block, Value x, bool keys) {
  Value heads = b.reshape(b.reshape(x, {1, block.rows, block.width()}), {1, block.rows, block.heads, block.depth});
  if (keys) return b.reshape(b.transposed(heads, {0, 2, 3, 1}), {block.heads, block.depth, block.rows});
  return b.reshape(b.transposed(heads, {0, 2, 1, 3}), {block.heads, block.rows, block.depth});
}

Value attention(ModelBuilder& b, const Block& block, Value x) {
  const int64_t width = block.width();
  Value query, key, value;
  if (block.one_projection) {
    Value all = dense(b, x, width, 3 * width);
    query = b.slice(all, 1, 0, width);
    key = b.slice(all, 1, width, width);
    value = b.slice(all, 1, 2 * width, width);
  } else {
    query = dense(b, x, width, width);
    key = dense(b, x, width, width);
    value = dense(b, x, width, width);
  }
  Value weights = b.softmax(b.batchMatmul(split(b, block, query, false), split(b, block, key, true)));
  Value heads = b.batchMatmul(weights, split(b, block, value, false));
  heads = b.transposed(b.reshape(heads, {1, block.heads, block.rows, block.depth}), {0, 2, 1, 3});
  return dense(b, b.reshape(heads, {block.rows, width}), width, width);
}

Value layer(ModelBuilder& b, const Block& block, Value x) {
  const int64_t width = block.width();
  auto feedForward = [&](Value y) { return dense(b, b.sigmoid(dense(b, y, width, 4 * width)), 4 * width, width); };
  if (block.pre_norm) {
    x = b.add(x, attention(b, block, b.layerNorm(x)));
    return b.add(x, feedForward(b.layerNorm(x)));
  }
  x = b.layerNorm(b.add(x, attention(b, block, x)));
  return b.layerNorm(b.add(x, feedForward(x)));
}

class TransformerTest : public PlanTest {
 protected:
  PlannedGraph plan(const Block& block) {
    ModelBuilder b(context_);
    Value x = b.input({block.rows, block.width()});
    for (int i = 0; i < 2; ++i) x = layer(b, block, x);
    return check(b.finish({x}));
  }

  /// Counts steps that only move elements: a copy, a transpose, a concatenation.
  static int countCopies(const v1::Plan& plan) {
    int count = 0;
    for (const v1::Step& step : plan.steps()) {
      const v1::Workload& workload = plan.workloads(step.workload());
      if (workload.flops() > 0) continue;
      ++count;
      ADD_FAILURE() << workload.summary() << " [" << step.name() << "]\n" << workload.ir();
    }
    return count;
  }

  static int countProducts(const v1::Plan& plan) {
    int count = 0;
    for (const v1::Step& step : plan.steps()) {
      count += plan.workloads(step.workload()).summary().find("matmul") != std::string::npos;
    }
    return count;
  }
};

TEST_F(TransformerTest, SeparateProjectionsMoveNothing) {
  for (bool pre_norm : {false, true}) {
    PlannedGraph planned = plan({.pre_norm = pre_norm});
    EXPECT_EQ(countCopies(planned.plan), 0);
    // Each of the six products per layer (queries, keys and values are one) is one step.
    EXPECT_EQ(countProducts(planned.plan), 2 * 6);
  }
}

TEST_F(TransformerTest, OneSplitProjectionMovesNothing) {
  PlannedGraph planned = plan({.one_projection = true, .pre_norm = true});
  EXPECT_EQ(countCopies(planned.plan), 0);
  EXPECT_EQ(countProducts(planned.plan), 2 * 6);
}

TEST_F(TransformerTest, OddShapesMoveNothing) {
  for (bool one_projection : {false, true}) {
    PlannedGraph planned = plan({.rows = 7, .heads = 3, .depth = 5, .one_projection = one_projection});
    EXPECT_EQ(countCopies(planned.plan), 0);
  }
}

}  // namespace
}  // namespace tessera::compiler
