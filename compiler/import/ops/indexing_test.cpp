// Operators that read at indices in a tensor: their values, and that no index leads out of a buffer.
#include <cmath>
#include <limits>

#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Indexing : public testing::Test {
 protected:
  std::vector<float> run(const ModelBuilder& builder, const std::vector<std::string>& inputs) {
    auto imported = importBytes(context, builder.model.SerializeAsString());
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return {};
    auto results = referenceRun(*std::move(imported), inputs);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? valuesOf<float>(results->front()) : std::vector<float>{};
  }
  v1::Failure failure(const ModelBuilder& builder) {
    auto imported = importBytes(context, builder.model.SerializeAsString());
    return imported.ok() ? v1::Failure() : failureOf(imported.status());
  }

  mlir::MLIRContext context;
};

TEST_F(Indexing, LossOfATargetThatIsNoClassReadsTheNearestOne) {
  ModelBuilder b;
  b.input("x", {3, 2}).input("t", {3}, onnx::TensorProto::INT64).output("y");
  setAttribute(b.node("NegativeLogLikelihoodLoss", {"x", "t"}, {"y"}), "reduction", std::string("none"));
  EXPECT_THAT(run(b, {bytesOf<float>({1, 2, 3, 4, 5, 6}), bytesOf<int64_t>({kLeast, 1, kMost})}),
              ElementsAre(-1, -4, -6));
}

TEST_F(Indexing, IgnoredTargetsCountForNothingInTheMean) {
  ModelBuilder b;
  b.input("x", {3, 2}).input("t", {3}, onnx::TensorProto::INT64).output("y");
  setAttribute(b.node("NegativeLogLikelihoodLoss", {"x", "t"}, {"y"}), "ignore_index", int64_t{-1});
  EXPECT_THAT(run(b, {bytesOf<float>({1, 2, -kInfinity, 4, 5, 6}), bytesOf<int64_t>({1, -1, 0})}), ElementsAre(-3.5F));
}

TEST_F(Indexing, OneHotOfAnIndexThatNamesNoClassIsOffEverywhere) {
  ModelBuilder b;
  b.input("i", {4}, onnx::TensorProto::INT64).input("v", {2}).output("y");
  b.initializer("depth", {2});
  b.node("OneHot", {"i", "depth", "v"}, {"y"});
  EXPECT_THAT(run(b, {bytesOf<int64_t>({-1, 0, 2, kLeast}), bytesOf<float>({5, 7})}),
              ElementsAre(5, 7, 7, 5, 5, 5, 5, 5));
}

TEST_F(Indexing, ReverseSequenceStaysInsideWhateverTheLengths) {
  ModelBuilder b;
  b.input("x", {3, 3}).input("n", {3}, onnx::TensorProto::INT64).output("y");
  b.node("ReverseSequence", {"x", "n"}, {"y"});
  EXPECT_THAT(run(b, {bytesOf<float>({0, 1, 2, 3, 4, 5, 6, 7, 8}), bytesOf<int64_t>({2, -7, kMost})}),
              ElementsAre(3, 1, 8, 0, 4, 5, 6, 7, 2));
}

TEST_F(Indexing, MaxUnpoolPlacesNothingForIndicesOutsideTheirWindow) {
  ModelBuilder b;
  b.input("x", {1, 1, 2}).input("i", {1, 1, 2}, onnx::TensorProto::INT64).output("y");
  auto& node = b.node("MaxUnpool", {"x", "i"}, {"y"});
  setAttribute(node, "kernel_shape", std::vector<int64_t>{2});
  setAttribute(node, "strides", std::vector<int64_t>{2});
  EXPECT_THAT(run(b, {bytesOf<float>({4, 9}), bytesOf<int64_t>({1, 2})}), ElementsAre(0, 4, 9, 0));
  EXPECT_THAT(run(b, {bytesOf<float>({4, 9}), bytesOf<int64_t>({kLeast, kMost})}), ElementsAre(0, 0, 0, 0));
}

TEST_F(Indexing, GridSampleReadsTheBorderForCoordinatesFarAway) {
  ModelBuilder b(16);
  b.input("x", {1, 1, 1, 3}).input("g", {1, 1, 4, 2}).output("y");
  auto& node = b.node("GridSample", {"x", "g"}, {"y"});
  setAttribute(node, "padding_mode", std::string("border"));
  setAttribute(node, "mode", std::string("nearest"));
  auto result = run(b, {bytesOf<float>({1, 2, 3}), bytesOf<float>({-1e30F, 0, 1e30F, 0, 0, 0, kNan, kNan})});
  ASSERT_EQ(result.size(), 4U);
  result.pop_back();  // a NaN input may give any element
  EXPECT_THAT(result, ElementsAre(1, 3, 2));
}

TEST_F(Indexing, CumSumRunsFromEitherEnd) {
  ModelBuilder b;
  b.input("x", {5}).output("y");
  b.initializer("axis", {0});
  auto& node = b.node("CumSum", {"x", "axis"}, {"y"});
  EXPECT_THAT(run(b, {bytesOf<float>({1, 2, 3, 4, 5})}), ElementsAre(1, 3, 6, 10, 15));
  setAttribute(node, "reverse", int64_t{1});
  setAttribute(node, "exclusive", int64_t{1});
  EXPECT_THAT(run(b, {bytesOf<float>({1, 2, 3, 4, 5})}), ElementsAre(14, 12, 9, 5, 0));
}

TEST_F(Indexing, DeterminantPivots) {
  ModelBuilder b;
  b.input("x", {2, 3, 3}).output("y");
  b.node("Det", {"x"}, {"y"});
  EXPECT_THAT(run(b, {bytesOf<float>({0, 2, 1, 1, 0, 0, 0, 0, 4, 1, 2, 3, 2, 4, 6, 0, 1, 1})}),
              ElementsAre(FloatNear(-8, 1e-5F), FloatNear(0, 1e-5F)));
}

TEST_F(Indexing, EinsumChainsOperandsAndBroadcastsTheEllipsis) {
  ModelBuilder b;
  b.input("a", {2, 1, 2}).input("b", {3, 2}).input("c", {3}).output("y");
  setAttribute(b.node("Einsum", {"a", "b", "c"}, {"y"}), "equation", std::string("...i, ...i, ... -> ..."));
  // a: 2x1 rows against b's 3 rows; c's dimension is the ellipsis's last one.
  EXPECT_THAT(run(b, {bytesOf<float>({1, 2, 3, 4}), bytesOf<float>({1, 0, 0, 1, 1, 1}), bytesOf<float>({1, 10, 100})}),
              ElementsAre(1, 20, 300, 3, 40, 700));
}

TEST_F(Indexing, EquationsThatDoNotFitAreRefused) {
  for (const char* equation : {"ij", "ij,jk->ik", "ij->ii", "ij->k", "i.j->i", "ijk->i", "ij->i->j"}) {
    ModelBuilder b;
    b.input("x", {2, 3}).output("y");
    auto& node = b.node("Einsum", {"x"}, {"y"});
    setAttribute(node, "equation", std::string(equation));
    const bool valid = std::string(equation) == "ij";
    EXPECT_EQ(failure(b).reason(), valid ? v1::Failure::REASON_UNSPECIFIED : v1::Failure::INVALID_MODEL) << equation;
  }
}

TEST_F(Indexing, ResizeRefusesWhatIsBeyondMeasure) {
  ModelBuilder b;
  b.input("x", {1, 1}).output("y");
  b.initializer("scales", {2}, {1e8F, 1});
  b.node("Resize", {"x", "", "scales"}, {"y"});
  EXPECT_EQ(failure(b).reason(), v1::Failure::INVALID_MODEL);
  ModelBuilder nan;
  nan.input("x", {1, 1}).output("y");
  nan.initializer("scales", {2}, {kNan, 1});
  nan.node("Resize", {"x", "", "scales"}, {"y"});
  EXPECT_EQ(failure(nan).found(), "nan");
}

TEST_F(Indexing, ResizeOfSomeAxesKeepsTheOthers) {
  ModelBuilder b(18);
  b.input("x", {2, 2}).output("y");
  b.initializer("sizes", {3});
  auto& node = b.node("Resize", {"x", "", "", "sizes"}, {"y"});
  setAttribute(node, "axes", std::vector<int64_t>{1});
  setAttribute(node, "mode", std::string("linear"));
  setAttribute(node, "coordinate_transformation_mode", std::string("align_corners"));
  setAttribute(node, "antialias", int64_t{0});
  EXPECT_THAT(run(b, {bytesOf<float>({1, 3, 5, 9})}), ElementsAre(1, 2, 3, 5, 7, 9));
  setAttribute(node, "keep_aspect_ratio_policy", std::string("not_larger"));
  EXPECT_THAT(run(b, {bytesOf<float>({1, 3, 5, 9})}), ElementsAre(1, 2, 3, 5, 7, 9));
  node.mutable_attribute()->rbegin()->set_s("larger");
  EXPECT_EQ(failure(b).attribute(), "keep_aspect_ratio_policy");
}

}  // namespace
}  // namespace tessera::compiler
