// The choices in a plan: the prices that led to them, and the alternatives that a pin may select.
#include "compiler/graph/choices.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"
#include "compiler/target/target.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

class ChoicesTest : public PlanTest {
 protected:
  ChoicesTest() {
    target_ = *findBuiltinTarget("sapphirerapids");
    target_.mutable_units(0)->set_count(2);
  }

  ImportedModel convolutions() {
    ModelBuilder b(context_);
    Value x = b.relu(b.conv(b.input({1, 3, 20, 18}), 32, {.kernel = 7, .stride = 2, .pad = 3}));
    x = b.maxPool(x, {.kernel = 3, .stride = 2, .pad = 1});
    x = b.relu(b.conv(x, 32, {.kernel = 3, .pad = 1}));
    x = b.relu(b.conv(x, 48, {.kernel = 3, .pad = 1}));
    return b.finish({b.relu(b.conv(x, 20, {.kernel = 1}))});
  }
  ImportedModel products() {
    ModelBuilder b(context_);
    Value x = b.input({67, 24});
    x = b.relu(b.matmul(x, b.weight({24, 96})));
    x = b.relu(b.matmul(x, b.weight({96, 32})));
    return b.finish({b.relu(b.matmul(x, b.weight({32, 80})))});
  }

  /// Pins every alternative alone: the plan follows it and computes the right result.
  void canAllBeHad(const std::function<ImportedModel()>& model, const std::vector<std::string>& kinds) {
    options_.pins.clear();
    const PlannedGraph free = check(model());
    std::map<std::string, int> tried;
    for (const v1::Choice& made : free.plan.report().choices()) {
      for (const v1::Choice::Alternative& other : made.alternatives()) {
        EXPECT_GT(made.cost_us(), 0) << made.kind() << " " << made.place();
        EXPECT_GT(made.error(), 0) << made.kind() << " " << made.place();
        EXPECT_NE(other.choice(), made.choice()) << made.place();
        EXPECT_GT(other.cost_us(), 0) << other.choice() << " at " << made.place();
        v1::Choice pin;
        pin.set_kind(made.kind());
        pin.set_place(made.place());
        pin.set_choice(other.choice());
        options_.pins = {pin};
        const PlannedGraph pinned = check(model());
        int followed = 0;
        for (const v1::Choice& now : pinned.plan.report().choices())
          followed += now.kind() == pin.kind() && now.place() == pin.place() && now.choice() == pin.choice();
        EXPECT_EQ(followed, 1) << pin.ShortDebugString();
        ++tried[made.kind()];
      }
    }
    for (const std::string& kind : kinds) EXPECT_GT(tried[kind], 0) << kind;
  }
};

TEST_F(ChoicesTest, AlternativesOfConvolutionsCanBeHad) {
  canAllBeHad([this] { return convolutions(); }, {"layout", "algorithm"});
}

TEST_F(ChoicesTest, AlternativesOfFusionsCanBeHad) {
  canAllBeHad([this] { return products(); }, {"fuse-chain"});
}

TEST_F(ChoicesTest, ASplitCanBeLeft) {
  target_.mutable_units(0)->set_ops_per_cycle(1);  // sums of thousands are worth splitting
  canAllBeHad(
      [this] {
        ModelBuilder b(context_);
        return b.finish({b.matmul(b.input({3, 4097}), b.weight({4097, 5}))});
      },
      {"split"});
}

// Fusing a rejected candidate removes those taken instead, and its price includes that.
TEST_F(ChoicesTest, WhatIsDisplacedIsInThePrice) {
  const PlannedGraph free = check(products());
  const auto& choices = free.plan.report().choices();
  double gains = 0;
  for (const v1::Choice& made : choices)
    if (made.kind() == "fuse-chain" && made.choice() == kFused)
      gains += made.alternatives(0).cost_us() - made.cost_us();
  ASSERT_GT(gains, 0) << "nothing was fused";
  int beside = 0;
  for (const v1::Choice& made : choices) {
    if (made.kind() != "fuse-chain" || made.choice() == kFused || made.alternatives().empty()) continue;
    for (const v1::Decision& decision : free.plan.report().decisions())
      if (decision.place() == made.place() && decision.kind() == made.kind())
        beside += made.alternatives(0).cost_us() > decision.profit().fused_us();
  }
  EXPECT_GT(beside, 0);
}

}  // namespace
}  // namespace tessera::compiler
