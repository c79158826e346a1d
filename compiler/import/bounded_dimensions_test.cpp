// Dimensions whose extent the data decide, run through MLIR's default lowering.
#include "compiler/import/bounded_dimensions.h"

#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Shapes = std::vector<std::vector<int64_t>>;

constexpr int kI64 = onnx::TensorProto::INT64, kBool = onnx::TensorProto::BOOL;

class Bounded : public testing::Test {
 protected:
  struct Outcome {
    std::vector<std::string> outputs;
    Shapes shapes;
  };
  Outcome run(const ModelBuilder& b, const std::vector<std::string>& inputs) {
    mlir::MLIRContext context;
    auto model = importBytes(context, b.model.SerializeAsString());
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    Outcome outcome;
    auto outputs = referenceRun(*std::move(model), inputs, &outcome.shapes);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (outputs.ok()) outcome.outputs = *outputs;
    outcome.outputs.resize(std::max<size_t>(outcome.outputs.size(), 1));
    return outcome;
  }
  std::string refusal(const ModelBuilder& b) {
    mlir::MLIRContext context;
    auto model = importBytes(context, b.model.SerializeAsString());
    EXPECT_FALSE(model.ok());
    if (model.ok()) return "";
    EXPECT_EQ(failureOf(model.status()).reason(), v1::Failure::UNSUPPORTED_OPERATOR);
    return failureOf(model.status()).message();
  }
};

/// x[2, 3] -> NonZero -> w[2, <= 6]
ModelBuilder nonZero() {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y");
  b.node("NonZero", {"x"}, {"w"});
  return b;
}

std::string sparse() { return bytesOf<float>({0, 1, 0, 2, 0, 3}); }

TEST_F(Bounded, OutputsAreMarkedWithTheirBounds) {
  ModelBuilder b = nonZero();
  b.node("Identity", {"w"}, {"y"});
  mlir::MLIRContext context;
  auto model = importBytes(context, b.model.SerializeAsString());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(2, 6));
  EXPECT_THAT(model->outputs[0].bounded_dims(), ElementsAre(1));
  ASSERT_EQ(model->extents.size(), 1U);
  EXPECT_EQ(model->extents[0].dimension, 1);
  const Outcome outcome = run(b, {sparse()});
  EXPECT_THAT(outcome.shapes, ElementsAre(ElementsAre(2, 3)));
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[0]), ElementsAre(0, 1, 1, 1, 0, 2));
  EXPECT_THAT(run(b, {bytesOf<float>({0, 0, 0, 0, 0, 0})}).shapes, ElementsAre(ElementsAre(2, 0)));
  EXPECT_THAT(run(b, {bytesOf<float>({1, 1, 1, 1, 1, 1})}).shapes, ElementsAre(ElementsAre(2, 6)));
}

/// x[N, 3] with N at most 4 and its size as an input: relu(x)[: N] and their sums.
TEST_F(Bounded, ARangeIsAnInputThatSaysHowMuchCounts) {
  ModelBuilder b;
  b.input("x", {-1, 3}).output("y").output("s");
  b.node("Relu", {"x"}, {"y"});
  b.initializer("axes", {1});
  b.node("ReduceSum", {"y", "axes"}, {"s"});
  mlir::MLIRContext context;
  ImportOptions options;
  options.dimensions = {{"N", -4}};
  auto model = importBytes(context, b.model.SerializeAsString(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->inputs.size(), 2U);
  EXPECT_THAT(model->inputs[0].shape(), ElementsAre(4, 3));
  EXPECT_THAT(model->inputs[0].bounded_dims(), ElementsAre(0));
  EXPECT_EQ(model->inputs[1].name(), "N");
  EXPECT_EQ(model->inputs[1].dtype(), v1::DATA_TYPE_I64);
  Shapes shapes;
  auto outputs = referenceRun(*std::move(model),
                              {bytesOf<float>({1, -2, 3, 4, 5, -6, 7, 7, 7, 7, 7, 7}), bytesOf<int64_t>({2})}, &shapes);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(shapes, ElementsAre(ElementsAre(2, 3), ElementsAre(2, 1)));
  EXPECT_THAT(valuesOf<float>((*outputs)[1]), ElementsAre(4, 9));
}

/// x[N, M] with N at most 4 and M at most 3, and the sizes as inputs.
TEST_F(Bounded, TwoRangesAreTwoInputsThatSayHowMuchCounts) {
  ModelBuilder b;
  b.input("x", {-1, -1}).output("y");
  auto* dims = b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dims->mutable_dim(1)->set_dim_param("M");
  b.node("Relu", {"x"}, {"y"});
  mlir::MLIRContext context;
  ImportOptions options;
  options.dimensions = {{"N", -4}, {"M", -3}};
  auto model = importBytes(context, b.model.SerializeAsString(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->inputs.size(), 3U);
  EXPECT_THAT(model->inputs[0].bounded_dims(), ElementsAre(0, 1));
  EXPECT_THAT(model->inputs[0].bounded_by(), ElementsAre(0, 1));
  EXPECT_EQ(model->dimensions[0].name(), "N");
  EXPECT_EQ(model->dimensions[1].size(), -3);
  EXPECT_EQ(model->inputs[1].name(), "N");
  EXPECT_EQ(model->inputs[2].name(), "M");
  Shapes shapes;
  auto outputs = referenceRun(
      *std::move(model),
      {bytesOf<float>({1, -2, 9, 3, 4, 9, 9, 9, 9, 9, 9, 9}), bytesOf<int64_t>({2}), bytesOf<int64_t>({2})}, &shapes);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(shapes, ElementsAre(ElementsAre(2, 2)));
  EXPECT_THAT(valuesOf<float>((*outputs)[0]), ElementsAre(1, 0, 3, 4));
}

/// z = Concat(past, x, past) + mask, with a mask whose dimension is named by a formula.
ModelBuilder maskedBy(const std::string& formula) {
  ModelBuilder b;
  b.input("mask", {-1}).input("past", {-1}).input("x", {2}).output("z");
  b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param(
      formula);
  setAttribute(b.node("Concat", {"past", "x", "past"}, {"all"}), "axis", int64_t{0});
  b.node("Add", {"all", "mask"}, {"z"});
  return b;
}

absl::StatusOr<ImportedModel> maskedModel(mlir::MLIRContext& context, const std::string& formula,
                                          const std::map<std::string, int64_t>& dimensions) {
  ImportOptions options;
  options.dimensions = dimensions;
  return importBytes(context, maskedBy(formula).model.SerializeAsString(), options);
}

/// The derived dimension needs no size, and equals the extent that the graph computes.
TEST_F(Bounded, ADimensionThatIsNamedByOthersFollowsThem) {
  for (const char* formula : {"2*N + 2", "N + 2 + N", "2*(N + 1)", "2*N + 4 - 2", "floor((4*N + 5)/2)",
                              "ceiling((4*N + 3)/2)", "(4*N + 5)//2", "N*2/1 + 2", "N/2 + 3*N/2 + 2"}) {
    mlir::MLIRContext context;
    const auto model = maskedModel(context, formula, {{"N", -4}});
    ASSERT_TRUE(model.ok()) << formula << ": " << model.status();
    ASSERT_EQ(model->dimensions.size(), 2U);
    EXPECT_EQ(model->dimensions[0].name(), formula);
    EXPECT_EQ(model->inputs[3].name(), formula);
    EXPECT_THAT(model->inputs[0].bounded_dims(), ElementsAre(0));
    EXPECT_THAT(model->inputs[0].bounded_by(), ElementsAre(0));
    EXPECT_EQ(model->dimensions[0].size(), -10);
    Shapes shapes;
    const auto outputs = referenceRun(*model,
                                      {bytesOf<float>({10, 20, 30, 40, 9, 9, 9, 9, 9, 9}), bytesOf<float>({1, 9, 9, 9}),
                                       bytesOf<float>({2, 3}), bytesOf<int64_t>({4}), bytesOf<int64_t>({1})},
                                      &shapes);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_THAT(shapes, ElementsAre(ElementsAre(4)));
    EXPECT_THAT(valuesOf<float>((*outputs)[0]), ElementsAre(11, 22, 33, 41));
  }
}

/// A requested formula has the effect of the name.
TEST_F(Bounded, ADimensionMayBeSaidToFollowFromOthers) {
  mlir::MLIRContext context;
  const auto model = maskedModel(context, "total", {{"N", -4}, {"total=2*N + 2", 0}});
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->dimensions.size(), 2U);
  EXPECT_EQ(model->dimensions[0].name(), "2*N + 2");
  EXPECT_EQ(model->dimensions[0].size(), -10);
  EXPECT_THAT(model->inputs[0].bounded_dims(), ElementsAre(0));
  const auto message = [&](const std::string& binding, const std::string& name) {
    const v1::Failure failure = failureOf(maskedModel(context, name, {{"N", -4}, {binding, 0}}).status());
    return absl::StrCat(failure.message(), "; ", failure.accepted());
  };
  EXPECT_THAT(message("total=2*N + M", "total"), HasSubstr("'total' cannot follow from '2*N + M'; numbers, + - * /"));
  EXPECT_THAT(message("total=total + 1", "total"), HasSubstr("these dimensions: N"));
  EXPECT_THAT(message("sum=N + 1", "total"), HasSubstr("no dimension 'sum'"));
  // A model may use that text as a dimension's name.
  EXPECT_TRUE(maskedModel(context, "a=b", {{"N", 1}, {"a=b", 4}}).ok());
}

TEST_F(Bounded, WhatADimensionIsNamedByMayHaveOneSize) {
  mlir::MLIRContext context;
  const auto known = maskedModel(context, "2*N + 2", {{"N", 3}});
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->dimensions[0].size(), 8);
  EXPECT_EQ(known->inputs.size(), 3U);
  // A variant for size 1 is exact, but the dimension is still a range, as in the other variants.
  const auto exact = maskedModel(context, "2*N + 2", {{"N", -1}});
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(exact->dimensions[0].size(), -4);
  EXPECT_THAT(exact->inputs[0].bounded_dims(), ElementsAre());
  EXPECT_EQ(exact->inputs.size(), 5U);
  // If all sizes are given, they win over the formula.
  const auto both = maskedModel(context, "3*N", {{"N", 3}, {"3*N", 8}});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->dimensions[0].size(), 8);
  EXPECT_TRUE(maskedModel(context, "2*N + 2", {{"N", -3}, {"2*N + 2", -8}}).ok());
}

TEST_F(Bounded, ANameThatContradictsIsRefused) {
  mlir::MLIRContext context;
  const auto message = [&](const std::string& formula, const std::map<std::string, int64_t>& dimensions) {
    const auto model = maskedModel(context, formula, dimensions);
    EXPECT_FALSE(model.ok()) << formula;
    const v1::Failure failure = failureOf(model.status());
    return absl::StrCat(failure.message(), "; ", failure.found(), "; ", failure.accepted(), "; ", failure.fix());
  };
  EXPECT_THAT(
      message("2*N + 2", {{"N", -3}, {"2*N + 2", -16}}),
      HasSubstr("'2*N + 2' is given a size, but it is derived from other dimensions; up to 16; up to 8; leave it out"));
  EXPECT_THAT(message("2*N + 2", {{"N", -3}, {"2*N + 2", 7}}), HasSubstr("derived from other dimensions; 7; up to 8"));
  EXPECT_THAT(message("2*N + 2", {{"N", 3}, {"2*N + 2", -8}}), HasSubstr("derived from other dimensions; up to 8; 8"));
  EXPECT_THAT(message("N - 1", {{"N", -1}}),
              HasSubstr("'N - 1' has no size for N=1; 0; sizes for which it is 1 or more"));
  EXPECT_THAT(message("N/2", {{"N", 3}}), HasSubstr("'N/2' has no size for N=3"));
  EXPECT_THAT(message("N - 4", {{"N", 3}}), HasSubstr("a negative number"));
  // The graph's own size is larger by 2.
  EXPECT_THAT(message("2*N", {{"N", -3}}), HasSubstr("8"));
  // Names that are no formulas need a size.
  for (const char* name : {"N + M", "N ** 2", "past + 1"}) EXPECT_THAT(message(name, {{"N", -3}}), HasSubstr(name));
  EXPECT_THAT(message("2*N + 2", {}), HasSubstr("--dim N=1 (several"));
}

TEST_F(Bounded, KnownDataGiveKnownShapes) {
  ModelBuilder b;
  b.input("x", {4}).output("y");
  b.initializer("mask", {1, 0, 1, 1});
  b.node("NonZero", {"mask"}, {"w"});
  b.node("Reshape", {"w", "shape"}, {"i"});
  b.initializer("shape", {3});
  b.node("Gather", {"x", "i"}, {"y"});
  const Outcome outcome = run(b, {bytesOf<float>({5, 6, 7, 8})});
  EXPECT_THAT(outcome.shapes, ElementsAre(ElementsAre(3)));
  EXPECT_THAT(valuesOf<float>(outcome.outputs[0]), ElementsAre(5, 7, 8));
}

TEST_F(Bounded, ExtentsFollowTheirDimension) {
  // What exporters write for x[x != 0].unsqueeze(1) * 2, and its shape.
  ModelBuilder b = nonZero();
  b.output("n");
  b.initializer("two", {}, {2});
  b.initializer("column", {-1, 1});
  setAttribute(b.node("Transpose", {"w"}, {"t"}), "perm", std::vector<int64_t>{1, 0});
  b.node("GatherND", {"x", "t"}, {"v"});
  b.node("Reshape", {"v", "column"}, {"r"});
  b.node("Mul", {"r", "two"}, {"y"});
  b.node("Shape", {"y"}, {"n"});
  const Outcome outcome = run(b, {sparse()});
  EXPECT_THAT(outcome.shapes, ElementsAre(ElementsAre(3, 1), ElementsAre(2)));
  EXPECT_THAT(valuesOf<float>(outcome.outputs[0]), ElementsAre(2, 4, 6));
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[1]), ElementsAre(3, 1));
}

TEST_F(Bounded, SlicesFromEitherEnd) {
  ModelBuilder b = nonZero();
  b.initializer("from", {1});
  b.initializer("to", {4});
  b.initializer("axis", {1});
  b.node("Slice", {"w", "from", "to", "axis"}, {"y"});
  EXPECT_THAT(run(b, {sparse()}).shapes, ElementsAre(ElementsAre(2, 2)));
  EXPECT_THAT(run(b, {bytesOf<float>({0, 1, 0, 0, 0, 0})}).shapes, ElementsAre(ElementsAre(2, 0)));
  EXPECT_THAT(run(b, {bytesOf<float>({1, 1, 1, 1, 1, 1})}).shapes, ElementsAre(ElementsAre(2, 3)));
  b.graph().mutable_initializer(0)->set_int64_data(0, -2);
  const Outcome last = run(b, {sparse()});
  EXPECT_THAT(last.shapes, ElementsAre(ElementsAre(2, 2)));
  EXPECT_THAT(run(b, {bytesOf<float>({0, 1, 0, 0, 0, 0})}).shapes, ElementsAre(ElementsAre(2, 1)));
  EXPECT_THAT(run(b, {bytesOf<float>({1, 1, 1, 1, 1, 1})}).shapes, ElementsAre(ElementsAre(2, 0)));
}

TEST_F(Bounded, IsResizedByScalesAndToASize) {
  ModelBuilder scaled = nonZero();
  ModelBuilder sized = scaled;
  scaled.initializer("scales", {2}, {1, 2});
  scaled.node("Resize", {"w", "", "scales"}, {"y"});
  EXPECT_THAT(run(scaled, {sparse()}).shapes, ElementsAre(ElementsAre(2, 6)));
  // A multiple of the bound, and another one of the run-time size.
  sized.initializer("sizes", {2, 12});
  sized.node("Resize", {"w", "", "", "sizes"}, {"y"});
  const Outcome whole = run(sized, {sparse()});  // rows 0 1 1 and 1 0 2
  EXPECT_THAT(whole.shapes, ElementsAre(ElementsAre(2, 12)));
  EXPECT_THAT(valuesOf<int64_t>(whole.outputs[0]),
              ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2, 2));
}

TEST_F(Bounded, SizesThatFallAsARangeGrowsAreRefused) {
  // Range(0, most - N): the longest one is for the smallest N.
  for (const auto& [op, refused] : {std::pair{"Sub", true}, {"Add", false}}) {
    ModelBuilder b;
    b.input("x", {-1}).output("y");
    b.initializer("most", {16});
    b.initializer("zero", {0}).clear_dims();
    b.initializer("one", {1}).clear_dims();
    b.node("Shape", {"x"}, {"n"});
    b.node(op, {"most", "n"}, {"left"});
    b.node("Squeeze", {"left"}, {"limit"});
    b.node("Range", {"zero", "limit", "one"}, {"y"});
    mlir::MLIRContext context;
    ImportOptions options;
    options.dimensions["N"] = -8;
    const auto model = importBytes(context, b.model.SerializeAsString(), options);
    EXPECT_EQ(model.ok(), !refused) << model.status();
    if (refused) EXPECT_THAT(failureOf(model.status()).message(), HasSubstr("does not grow with the range"));
  }
}

TEST_F(Bounded, CountsOfItsOwnKindAreOne) {
  // Two values selected by the same indices have equal extents; two selections may not.
  ModelBuilder b = nonZero();
  b.initializer("row", {0});
  b.node("Gather", {"w", "row"}, {"r"});
  b.node("Add", {"w", "r"}, {"y"});
  EXPECT_THAT(run(b, {sparse()}).shapes, ElementsAre(ElementsAre(2, 3)));
  ModelBuilder two = nonZero();
  two.input("z", {2, 3});
  two.node("NonZero", {"z"}, {"q"});
  two.node("Add", {"w", "q"}, {"y"});
  EXPECT_THAT(refusal(two), HasSubstr("may differ from that of input 0"));
}

TEST_F(Bounded, WhatPaddingWouldChangeIsRefused) {
  struct Case {
    const char* words;
    void (*build)(ModelBuilder& b);
  };
  const Case cases[] = {{"the last of equal elements could lie beyond it",
                         [](ModelBuilder& b) {
                           auto& node = b.node("ArgMax", {"w"}, {"y"}, "bad");
                           setAttribute(node, "axis", int64_t{1});
                           setAttribute(node, "select_last_index", int64_t{1});
                         }},
                        {"the new shape requires 6 there",
                         [](ModelBuilder& b) {
                           b.initializer("s", {2, 6});
                           b.node("Reshape", {"w", "s"}, {"y"}, "bad");
                         }},
                        {"input 1 has 6 there", [](ModelBuilder& b) {
                           b.initializer("six", {0, 1, 2, 3, 4, 5});
                           b.node("Add", {"w", "six"}, {"y"}, "bad");
                         }}};
  for (const Case& one : cases) {
    ModelBuilder b = nonZero();
    one.build(b);
    const std::string message = refusal(b);
    EXPECT_THAT(message, HasSubstr("node 'bad'"));
    EXPECT_THAT(message, HasSubstr(one.words));
  }
}

TEST_F(Bounded, TileRepeatsWhatIsThere) {
  ModelBuilder b = nonZero();
  b.initializer("r", {1, 2});
  b.node("Tile", {"w", "r"}, {"y"});
  const Outcome outcome = run(b, {sparse()});
  EXPECT_THAT(outcome.shapes, ElementsAre(ElementsAre(2, 6)));
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[0]), ElementsAre(0, 1, 1, 0, 1, 1, 1, 0, 2, 1, 0, 2));
  EXPECT_THAT(run(b, {bytesOf<float>({0, 0, 0, 0, 0, 0})}).shapes, ElementsAre(ElementsAre(2, 0)));
}

TEST_F(Bounded, ReductionsLeaveOutWhatIsNotThere) {
  ModelBuilder b = nonZero();
  b.output("m").output("p");
  b.node("ReduceSum", {"w"}, {"y"});
  b.node("Cast", {"w"}, {"f"}).add_attribute();
  auto& to = *b.graph().mutable_node(2)->mutable_attribute(0);
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(onnx::TensorProto::FLOAT);
  setAttribute(b.node("ReduceMean", {"f"}, {"m"}), "axes", std::vector<int64_t>{1});
  setAttribute(b.node("Softmax", {"f"}, {"p"}), "axis", int64_t{1});
  const Outcome outcome = run(b, {sparse()});  // rows 0 1 1 and 1 0 2
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[0]), ElementsAre(5));
  EXPECT_THAT(valuesOf<float>(outcome.outputs[1]), ElementsAre(testing::FloatEq(2.0F / 3), 1));
  ASSERT_EQ(outcome.shapes.size(), 3U);
  EXPECT_THAT(outcome.shapes[2], ElementsAre(2, 3));
  const auto weights = valuesOf<float>(outcome.outputs[2]);
  ASSERT_EQ(weights.size(), 6U);
  EXPECT_NEAR(weights[0] + weights[1] + weights[2], 1, 1e-6);
}

/// The exporters' pattern before a Reshape: x[N, T, 6] -> [N, T, 2, 3] with the sizes of the first two dimensions.
TEST_F(Bounded, ShapesThatFollowRangesAreKnown) {
  ModelBuilder b;
  b.input("x", {-1, -1, 6}).output("y").output("r");
  auto* dims = b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dims->mutable_dim(1)->set_dim_param("T");
  b.initializer("zero", {0}).clear_dims();
  b.initializer("one", {1}).clear_dims();
  b.initializer("first", {0});
  b.initializer("parts", {2, 3});
  b.node("Shape", {"x"}, {"s"});
  b.node("Gather", {"s", "zero"}, {"n"});
  b.node("Gather", {"s", "one"}, {"t"});
  b.node("Unsqueeze", {"n", "first"}, {"n1"});
  b.node("Unsqueeze", {"t", "first"}, {"t1"});
  setAttribute(b.node("Concat", {"n1", "t1", "parts"}, {"wanted"}), "axis", int64_t{0});
  b.node("Reshape", {"x", "wanted"}, {"y"});
  b.node("Range", {"zero", "t", "one"}, {"r"});
  mlir::MLIRContext context;
  ImportOptions options;
  options.dimensions = {{"N", -2}, {"T", -3}};
  auto model = importBytes(context, b.model.SerializeAsString(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<float> x(36);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  Shapes shapes;
  auto outputs = referenceRun(*std::move(model), {bytesOf(x), bytesOf<int64_t>({1}), bytesOf<int64_t>({2})}, &shapes);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(shapes, ElementsAre(ElementsAre(1, 2, 2, 3), ElementsAre(2)));
  EXPECT_THAT(valuesOf<float>((*outputs)[0]), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(valuesOf<int64_t>((*outputs)[1]), ElementsAre(0, 1));
  // In the other order the result has other dimensions: the elements of x[1, 2, 6] in order.
  b.graph().mutable_node(5)->set_input(0, "t1");
  b.graph().mutable_node(5)->set_input(1, "n1");
  model = importBytes(context, b.model.SerializeAsString(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  shapes.clear();
  outputs = referenceRun(*std::move(model), {bytesOf(x), bytesOf<int64_t>({1}), bytesOf<int64_t>({2})}, &shapes);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(shapes, ElementsAre(ElementsAre(2, 1, 2, 3), ElementsAre(2)));
  EXPECT_THAT(valuesOf<float>((*outputs)[0]), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(Bounded, CompressTakesShortConditions) {
  for (const size_t length : {size_t{2}, size_t{3}}) {
    ModelBuilder b;
    b.input("x", {2, 3}).input("mask", {static_cast<int64_t>(length)}, kBool).output("y");
    setAttribute(b.node("Compress", {"x", "mask"}, {"y"}), "axis", int64_t{1});
    const Outcome outcome = run(b, {bytesOf<float>({1, 2, 3, 4, 5, 6}), std::string("\0\1\1", 3).substr(0, length)});
    EXPECT_THAT(outcome.shapes, ElementsAre(ElementsAre(2, length - 1)));
    EXPECT_THAT(valuesOf<float>(outcome.outputs[0]), length == 2 ? testing::ElementsAreArray<float>({2, 5})
                                                                 : testing::ElementsAreArray<float>({2, 3, 5, 6}));
  }
}

TEST_F(Bounded, UniqueSortsAndCounts) {
  ModelBuilder b;
  b.input("x", {7}).output("y").output("first").output("kind").output("often");
  auto& node = b.node("Unique", {"x"}, {"y", "first", "kind", "often"});
  const std::string x = bytesOf<float>({3, 1, 3, 2, 1, 1, 2});
  Outcome outcome = run(b, {x});
  EXPECT_THAT(outcome.shapes, ElementsAre(ElementsAre(3), ElementsAre(3), ElementsAre(7), ElementsAre(3)));
  EXPECT_THAT(valuesOf<float>(outcome.outputs[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[1]), ElementsAre(1, 3, 0));
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[2]), ElementsAre(2, 0, 2, 1, 0, 0, 1));
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[3]), ElementsAre(3, 2, 2));
  setAttribute(node, "sorted", int64_t{0});
  outcome = run(b, {x});
  EXPECT_THAT(valuesOf<float>(outcome.outputs[0]), ElementsAre(3, 1, 2));
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[2]), ElementsAre(0, 1, 0, 2, 1, 1, 2));
  EXPECT_THAT(valuesOf<int64_t>(outcome.outputs[3]), ElementsAre(2, 3, 2));
}

TEST_F(Bounded, SlicesOfNothingAreAllEqual) {
  for (const int64_t count : {0, 1, 3}) {
    ModelBuilder b;
    b.input("x", {0, count}).output("y").output("first").output("kind").output("often");
    setAttribute(b.node("Unique", {"x"}, {"y", "first", "kind", "often"}), "axis", int64_t{1});
    const Outcome outcome = run(b, {""});
    const std::vector<int64_t> kinds(count > 0 ? 1 : 0, 0);
    EXPECT_EQ(valuesOf<int64_t>(outcome.outputs[1]), kinds) << count;
    EXPECT_EQ(valuesOf<int64_t>(outcome.outputs[2]), std::vector<int64_t>(count, 0)) << count;
    EXPECT_EQ(valuesOf<int64_t>(outcome.outputs[3]), std::vector<int64_t>(kinds.size(), count)) << count;
  }
}

TEST_F(Bounded, SuppressionIsSafeWithAnyBoxes) {
  ModelBuilder b;
  b.input("boxes", {1, 4, 4}).input("scores", {1, 1, 4}).input("most", {1}, kI64).output("y");
  b.node("NonMaxSuppression", {"boxes", "scores", "most"}, {"y"});
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  std::vector<float> boxes = {0, 0, 1, 1, nan, nan, nan, nan, -inf, -inf, inf, inf, 5, 5, 5, 5};
  for (const int64_t most : {int64_t{0}, int64_t{-1}, int64_t{2}, INT64_MAX, INT64_MIN}) {
    const Outcome outcome = run(b, {bytesOf(boxes), bytesOf<float>({0.5, nan, 0.25, inf}), bytesOf<int64_t>({most})});
    const int64_t found = most < 0 ? 0 : std::min<int64_t>(most, 3);  // a NaN is never the best
    EXPECT_THAT(outcome.shapes, ElementsAre(ElementsAre(found, 3))) << most;
    if (found >= 2) EXPECT_EQ(valuesOf<int64_t>(outcome.outputs[0])[2], 3);
  }
}

TEST_F(Bounded, HugeSuppressionIsRefusedBeforeMemoryIsSpent) {
  ModelBuilder b;
  b.input("boxes", {64, 1 << 20, 4}).input("scores", {64, 1024, 1 << 20}).input("most", {1}, kI64).output("y");
  b.node("NonMaxSuppression", {"boxes", "scores", "most"}, {"y"}, "bad");
  mlir::MLIRContext context;
  auto model = importBytes(context, b.model.SerializeAsString());
  EXPECT_EQ(failureOf(model.status()).reason(), v1::Failure::LIMIT_EXCEEDED) << model.status();
}

TEST_F(Bounded, RowsOfALoopThatEndsByItsDataAreCounted) {
  // i = 0; while (i + x < 3 and i < 5) rows.append(i * 10)
  ModelBuilder b;
  b.input("x", {}, kI64).output("rows");
  b.initializer("most", {5});
  b.initializer("ten", {10});
  b.initializer("three", {3});
  auto& loop = b.node("Loop", {"most", "", "x"}, {"x_end", "rows"});
  auto* attribute = loop.add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  auto* body = attribute->mutable_g();
  for (const char* name : {"i", "go", "x_in"}) body->add_input()->set_name(name);
  for (const char* name : {"again", "x_in", "row"}) body->add_output()->set_name(name);
  auto add = [&](const char* op, const std::vector<std::string>& inputs, const char* output) {
    auto* node = body->add_node();
    node->set_op_type(op);
    for (const std::string& input : inputs) node->add_input(input);
    node->add_output(output);
  };
  add("Add", {"i", "x_in"}, "sum");
  add("Less", {"sum", "three"}, "again");
  add("Mul", {"i", "ten"}, "row");
  for (const auto& [x, rows] : {std::pair<int64_t, size_t>{0, 4}, {2, 2}, {9, 1}, {-9, 5}}) {
    const Outcome outcome = run(b, {bytesOf<int64_t>({x})});
    ASSERT_EQ(outcome.shapes.size(), 1U);
    EXPECT_EQ(outcome.shapes[0][0], static_cast<int64_t>(rows)) << x;
    const auto values = valuesOf<int64_t>(outcome.outputs[0]);
    ASSERT_EQ(values.size(), rows);
    for (size_t i = 0; i < rows; ++i) EXPECT_EQ(values[i], static_cast<int64_t>(i) * 10);
  }
}

}  // namespace
}  // namespace tessera::compiler
