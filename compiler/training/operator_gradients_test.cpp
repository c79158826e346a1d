// Gradients of single operators against finite differences, both by the interpreter in f64: one step of SGD with
// learning rate 1 subtracts the gradient from the parameter.
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "compiler/training/training.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::training {
namespace {

using Doubles = std::vector<double>;

int64_t count(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

/// A model whose parameter "w" goes through one operator, or a few, to "y".
struct Case {
  const char* name;
  std::vector<int64_t> shape;              ///< of w
  std::function<void(ModelBuilder&)> add;  ///< adds nodes from w to y
  double low = -1, high = 1;               ///< of w's elements
  const char* optimizer = "sgd";
};

void doubles(ModelBuilder& b, const std::string& name, const std::vector<int64_t>& shape, const Doubles& values) {
  auto* tensor = b.graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::DOUBLE);
  for (const int64_t extent : shape) tensor->add_dims(extent);
  tensor->set_raw_data(bytesOf(values));
}

Doubles drawn(size_t elements, double low, double high, unsigned seed) {
  std::mt19937 random(seed);
  Doubles values;
  // No uniform_real_distribution: its values differ between libraries.
  for (size_t i = 0; i < elements; ++i)
    values.push_back(low + (high - low) * static_cast<double>(random()) / static_cast<double>(std::mt19937::max()));
  return values;
}

class OperatorGradients : public testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  const auto one = [](const char* op) { return [op](ModelBuilder& b) { b.node(op, {"w"}, {"y"}, op); }; };
  const auto with = [](const char* op, const std::vector<int64_t>& shape, bool first = false) {
    return [=](ModelBuilder& b) {
      doubles(b, "c", shape, drawn(static_cast<size_t>(count(shape)), 0.5, 1.5, 3));
      b.node(op, first ? std::vector<std::string>{"c", "w"} : std::vector<std::string>{"w", "c"}, {"y"}, op);
    };
  };
  std::vector<Case> all;
  for (const char* op :
       {"Exp",  "Tanh",        "Sigmoid",  "Sin", "Cos", "Erf",  "Softplus", "Relu", "LeakyRelu", "Elu",
        "Selu", "HardSigmoid", "Softsign", "Abs", "Neg", "Atan", "Sinh",     "Cosh", "Identity",  "HardSwish"})
    all.push_back({op, {3, 5}, one(op)});
  for (const char* op : {"Log", "Sqrt", "Reciprocal", "Acosh"}) all.push_back({op, {3, 5}, one(op), 1.1, 2});
  for (const char* op : {"Asin", "Acos", "Atanh", "Tan", "Asinh"}) all.push_back({op, {4}, one(op), -0.8, 0.8});
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"}) {
    all.push_back({op, {3, 1, 5}, with(op, {2, 5}), 0.6, 1.4});
    all.push_back({op, {2, 5}, with(op, {3, 1, 5}, true), 0.6, 1.4});
  }
  all.push_back({"MatMul", {2, 3, 4}, with("MatMul", {4, 5})});
  all.push_back({"MatMul", {4, 5}, with("MatMul", {2, 3, 4}, true)});
  all.push_back({"MatMul", {1, 3, 4}, with("MatMul", {2, 4, 3})});
  all.push_back({"Gemm", {3, 4}, [](ModelBuilder& b) {
                   doubles(b, "c", {3, 5}, drawn(15, -1, 1, 4));
                   auto& node = b.node("Gemm", {"w", "c"}, {"y"});
                   setAttribute(node, "transA", int64_t{1});
                 }});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2",
                         "ReduceLogSumExp", "ReduceSumSquare"})
    all.push_back({op, {3, 4, 2}, one(op), 0.2, 1.2});
  all.push_back({"Softmax", {3, 7}, one("Softmax")});
  all.push_back({"LogSoftmax", {3, 7}, one("LogSoftmax")});
  all.push_back({"LayerNormalization", {3, 8}, [](ModelBuilder& b) {
                   doubles(b, "c", {8}, drawn(8, 0.5, 1.5, 5));
                   b.node("LayerNormalization", {"w", "c"}, {"y"});
                 }});
  const auto conv = [](const std::vector<int64_t>& strides, const std::vector<int64_t>& pads, int64_t groups,
                       bool weight) {
    return [=](ModelBuilder& b) {
      if (weight) {
        doubles(b, "c", {2, 2 * groups, 7, 6}, drawn(static_cast<size_t>(168 * groups), -1, 1, 6));
      } else {
        doubles(b, "c", {3 * groups, 2, 3, 2}, drawn(static_cast<size_t>(36 * groups), -1, 1, 6));
      }
      auto& node = b.node("Conv", weight ? std::vector<std::string>{"c", "w"} : std::vector<std::string>{"w", "c"},
                          {"y"}, "conv");
      setAttribute(node, "strides", strides);
      setAttribute(node, "pads", pads);
      setAttribute(node, "group", groups);
    };
  };
  for (const bool weight : {false, true}) {
    const auto shape = [&](int64_t groups) {
      return weight ? std::vector<int64_t>{3 * groups, 2, 3, 2} : std::vector<int64_t>{2, 2 * groups, 7, 6};
    };
    all.push_back({"Conv", shape(1), conv({1, 1}, {0, 0, 0, 0}, 1, weight)});
    all.push_back({"Conv", shape(1), conv({2, 1}, {1, 0, 1, 1}, 1, weight)});
    all.push_back({"Conv", shape(2), conv({2, 2}, {1, 1, 1, 1}, 2, weight)});
  }
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const int64_t stride : {1, 2, 3})
      all.push_back({op, {2, 3, 7, 6}, [op, stride](ModelBuilder& b) {
                       auto& node = b.node(op, {"w"}, {"y"}, op);
                       setAttribute(node, "kernel_shape", std::vector<int64_t>{3, 2});
                       setAttribute(node, "strides", std::vector<int64_t>{stride, stride});
                       setAttribute(node, "pads", std::vector<int64_t>{1, 0, 1, 1});
                     }});
  }
  all.push_back({"GlobalAveragePool", {2, 3, 4, 5}, one("GlobalAveragePool")});
  all.push_back({"Gather", {6, 4}, [](ModelBuilder& b) {
                   b.initializer("i", {5, -1, 0, 5});
                   b.node("Gather", {"w", "i"}, {"y"});
                 }});
  all.push_back({"Transpose", {2, 3, 4}, [](ModelBuilder& b) {
                   setAttribute(b.node("Transpose", {"w"}, {"t"}), "perm", std::vector<int64_t>{2, 0, 1});
                   b.node("Mul", {"t", "t"}, {"y"});
                 }});
  all.push_back({"Reshape", {2, 3, 4}, [](ModelBuilder& b) {
                   b.initializer("s", {4, 6});
                   b.node("Reshape", {"w", "s"}, {"t"});
                   b.node("Mul", {"t", "t"}, {"y"});
                 }});
  all.push_back({"Slice", {7, 5}, [](ModelBuilder& b) {
                   b.initializer("from", {1, 4});
                   b.initializer("to", {7, -6});
                   b.initializer("axes", {0, 1});
                   b.initializer("steps", {2, -1});
                   b.node("Slice", {"w", "from", "to", "axes", "steps"}, {"t"});
                   b.node("Mul", {"t", "t"}, {"y"});
                 }});
  all.push_back({"Concat", {2, 3}, [](ModelBuilder& b) {
                   b.node("Mul", {"w", "w"}, {"t"});
                   setAttribute(b.node("Concat", {"w", "t", "w"}, {"u"}), "axis", int64_t{1});
                   b.node("Sin", {"u"}, {"y"});
                 }});
  all.push_back({"Pad", {2, 3}, [](ModelBuilder& b) {
                   b.initializer("p", {1, 0, 0, 2});
                   b.node("Pad", {"w", "p"}, {"t"});
                   b.node("Cos", {"t"}, {"y"});
                 }});
  all.push_back({"Where", {2, 3}, [](ModelBuilder& b) {
                   doubles(b, "c", {2, 3}, drawn(6, -1, 1, 8));
                   b.node("Less", {"c", "w"}, {"t"});
                   b.node("Mul", {"w", "w"}, {"u"});
                   b.node("Where", {"t", "u", "w"}, {"y"});
                 }});
  all.push_back({"Expand", {3, 1}, [](ModelBuilder& b) {
                   b.initializer("s", {2, 3, 4});
                   b.node("Expand", {"w", "s"}, {"t"});
                   b.node("Sin", {"t"}, {"y"});
                 }});
  all.push_back({"Split", {4, 6}, [](ModelBuilder& b) {
                   setAttribute(b.node("Split", {"w"}, {"s", "t"}), "axis", int64_t{1});
                   b.node("Mul", {"s", "t"}, {"y"});
                 }});
  all.push_back({"LSTM", {1, 8, 4}, [](ModelBuilder& b) {
                   doubles(b, "c", {5, 3, 4}, drawn(60, -1, 1, 10));
                   doubles(b, "r", {1, 8, 2}, drawn(16, -1, 1, 11));
                   setAttribute(b.node("LSTM", {"c", "w", "r"}, {"y"}), "hidden_size", int64_t{2});
                 }});
  all.push_back({"Einsum", {3, 4}, [](ModelBuilder& b) {
                   doubles(b, "c", {4, 5}, drawn(20, -1, 1, 9));
                   setAttribute(b.node("Einsum", {"w", "c"}, {"y"}), "equation", std::string("ij,jk->ki"));
                 }});
  return all;
}

TEST_P(OperatorGradients, EqualsFiniteDifferences) {
  const Case& each = GetParam();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ModelBuilder b(21);
  b.model.set_ir_version(10);
  const auto elements = static_cast<size_t>(count(each.shape));
  const Doubles w = drawn(elements, each.low, each.high, 1);
  doubles(b, "w", each.shape, w);
  each.add(b);
  // A sum of squares gives the elements of y different gradients.
  b.node("Mul", {"y", "y"}, {"y2"});
  auto& sum = b.node("ReduceSum", {"y2"}, {"total"});
  setAttribute(sum, "keepdims", int64_t{0});
  b.output("total");

  v1::TrainingOptions options;
  options.set_loss("output");
  options.add_trainable("w");
  VariableChoice variables(options);
  ImportOptions import_options;
  import_options.is_variable = std::ref(variables);
  auto model = importBytes(context, b.model.SerializeAsString(), import_options);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto pairs = makeTrainingStep(*model, options);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  std::vector<std::string> names;
  for (const v1::TensorSpec& spec : model->inputs) names.push_back(spec.name());
  ASSERT_THAT(names, testing::ElementsAre("w", "learning_rate", "steps"));

  const auto run = [&](const Doubles& values) -> std::pair<double, Doubles> {
    auto results = referenceRun(*model, {bytesOf(values), bytesOf<float>({1}), bytesOf<int64_t>({0})});
    EXPECT_TRUE(results.ok()) << results.status();
    if (!results.ok()) return {};
    return {valuesOf<double>((*results)[1])[0], valuesOf<double>((*results)[3])};
  };
  const Doubles next = run(w).second;
  ASSERT_EQ(next.size(), elements);
  for (size_t i = 0; i < elements; i += std::max<size_t>(1, elements / 12)) {
    constexpr double kStep = 1e-5;
    Doubles low = w, high = w;
    low[i] -= kStep;
    high[i] += kStep;
    const double difference = (run(high).first - run(low).first) / (2 * kStep);
    EXPECT_NEAR(w[i] - next[i], difference, 1e-6 * std::max(1.0, std::abs(difference)))
        << each.name << ", element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OperatorGradients, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name) + std::to_string(info.index); });

TEST(Training, NodesWithoutAGradientAreNamed) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ModelBuilder b(21);
  b.input("x", {20, 1, 4});  // more steps than are unrolled
  b.initializer("w", {1, 8, 4}, std::vector<float>(32, 0.1F));
  b.initializer("r", {1, 8, 2}, std::vector<float>(16, 0.1F));
  setAttribute(b.node("LSTM", {"x", "w", "r"}, {"y"}, "the_lstm"), "hidden_size", int64_t{2});
  b.output("y");
  v1::TrainingOptions options;
  options.set_loss("mean-squared-error");
  VariableChoice variables(options);
  ImportOptions import_options;
  import_options.is_variable = std::ref(variables);
  auto model = importBytes(context, b.model.SerializeAsString(), import_options);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto pairs = makeTrainingStep(*model, options);
  ASSERT_FALSE(pairs.ok());
  EXPECT_EQ(failureOf(pairs.status()).reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(failureOf(pairs.status()).node(), "the_lstm") << pairs.status();
}

TEST(Training, PatternsMustFindAnInitializer) {
  v1::TrainingOptions options;
  options.add_trainable("fc*.weight");
  options.add_frozen("fc1.*");
  VariableChoice choice(options);
  EXPECT_TRUE(choice("fc2.weight"));
  EXPECT_FALSE(choice("fc2.bias"));
  EXPECT_EQ(failureOf(choice.check()).found(), "fc1.*");
  EXPECT_FALSE(choice("fc1.weight"));
  EXPECT_TRUE(choice.check().ok());
}

}  // namespace
}  // namespace tessera::compiler::training
