// Recurrent layers without steps or without sequences.
#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::Each;

constexpr int64_t kFeatures = 4, kHidden = 3;

struct Layer {
  std::string op;
  int64_t gates;
  int64_t steps, batch;
  bool batch_first, bidirectional, initial;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  std::vector<int64_t> input() const {
    return batch_first ? std::vector<int64_t>{batch, steps, kFeatures} : std::vector<int64_t>{steps, batch, kFeatures};
  }
  std::vector<int64_t> output() const {
    return batch_first ? std::vector<int64_t>{batch, steps, directions(), kHidden}
                       : std::vector<int64_t>{steps, directions(), batch, kHidden};
  }
  std::vector<int64_t> state() const {
    return batch_first ? std::vector<int64_t>{batch, directions(), kHidden}
                       : std::vector<int64_t>{directions(), batch, kHidden};
  }
  int64_t stateElements() const { return batch * directions() * kHidden; }

  ModelBuilder model() const {
    ModelBuilder b(14);
    b.input("x", input()).output("y").output("last_h");
    const int64_t rows = gates * kHidden;
    b.initializer("w", {directions(), rows, kFeatures}, std::vector<float>(directions() * rows * kFeatures, 0.5F));
    b.initializer("r", {directions(), rows, kHidden}, std::vector<float>(directions() * rows * kHidden, 0.5F));
    std::vector<std::string> inputs = {"x", "w", "r"}, outputs = {"y", "last_h"};
    const bool has_cell = gates == 4;
    if (initial) {
      b.input("h", state());
      inputs.insert(inputs.end(), {"", "", "h"});
      if (has_cell) {
        b.input("c", state());
        inputs.emplace_back("c");
      }
    }
    if (has_cell) {
      b.output("last_c");
      outputs.emplace_back("last_c");
    }
    onnx::NodeProto& node = b.node(op, inputs, outputs);
    setAttribute(node, "hidden_size", kHidden);
    setAttribute(node, "layout", int64_t{batch_first});
    setAttribute(node, "direction", std::string(bidirectional ? "bidirectional" : "forward"));
    return b;
  }
};

class RecurrentWithoutWork : public testing::TestWithParam<Layer> {};

TEST_P(RecurrentWithoutWork, KeepsItsStates) {
  const Layer& layer = GetParam();
  mlir::MLIRContext context;
  auto imported = importBytes(context, layer.model().model.SerializeAsString());
  ASSERT_TRUE(imported.ok()) << imported.status();
  std::vector<std::string> inputs = {""};
  const int64_t states = layer.gates == 4 ? 2 : 1;
  for (int64_t s = 0; layer.initial && s < states; ++s)
    inputs.push_back(bytesOf(std::vector<float>(layer.stateElements(), 2.0F + static_cast<float>(s))));
  std::vector<std::vector<int64_t>> shapes;
  auto results = referenceRun(*std::move(imported), inputs, &shapes);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 1U + states);
  EXPECT_EQ(shapes[0], layer.output());
  EXPECT_TRUE((*results)[0].empty());
  for (int64_t s = 0; s < states; ++s) {
    EXPECT_EQ(shapes[1 + s], layer.state());
    const std::vector<float> values = valuesOf<float>((*results)[1 + s]);
    EXPECT_EQ(values.size(), static_cast<size_t>(layer.stateElements()));
    EXPECT_THAT(values, Each(layer.initial ? 2.0F + static_cast<float>(s) : 0.0F));
  }
}

std::vector<Layer> layers() {
  std::vector<Layer> all;
  for (const auto& [op, gates] : {std::pair{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}}) {
    for (const auto& [steps, batch] : {std::pair{0, 2}, {5, 0}}) {
      for (int bits = 0; bits < 8; ++bits)
        all.push_back({op, gates, steps, batch, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllKinds, RecurrentWithoutWork, testing::ValuesIn(layers()));

TEST(Recurrent, WithoutFeaturesIsRefused) {
  Layer layer{"GRU", 3, 5, 2, false, false, false};
  ModelBuilder b = layer.model();
  b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(2)->set_dim_value(0);
  mlir::MLIRContext context;
  const auto imported = importBytes(context, b.model.SerializeAsString());
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(failureOf(imported.status()).reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(failureOf(imported.status()).found(), "5x2x0");
}

}  // namespace
}  // namespace tessera::compiler
