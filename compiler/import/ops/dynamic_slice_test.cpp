// Windows at data-decided positions.
#include "compiler/import/ops/dynamic_slice.h"

#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using Shapes = std::vector<std::vector<int64_t>>;

constexpr int kI64 = onnx::TensorProto::INT64;

/// y = x[from : to] of 8 elements, where `bounds` computes both from i; z = y reshaped to 1x3.
struct Sliced {
  ModelBuilder b;
  explicit Sliced(const std::function<void(ModelBuilder&)>& bounds, bool reshapes = false) {
    b.input("x", {8}).input("i", {1}, kI64).output(reshapes ? "z" : "y");
    b.initializer("zero", std::vector<int64_t>{0});
    b.initializer("three", std::vector<int64_t>{3});
    b.initializer("shape", std::vector<int64_t>{1, 3});
    bounds(b);
    b.node("Slice", {"x", "from", "to"}, {"y"});
    if (reshapes) b.node("Reshape", {"y", "shape"}, {"z"});
  }
  absl::StatusOr<ImportedModel> import(mlir::MLIRContext& context) const {
    return importBytes(context, b.model.SerializeAsString());
  }
  /// Returns the slice of 0, 1, ..., 7.
  std::vector<float> at(int64_t i) const {
    mlir::MLIRContext context;
    auto model = import(context);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    auto outputs = referenceRun(*std::move(model), {bytesOf<float>({0, 1, 2, 3, 4, 5, 6, 7}), bytesOf<int64_t>({i})});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? valuesOf<float>((*outputs)[0]) : std::vector<float>();
  }
  std::vector<int64_t> most() const {
    mlir::MLIRContext context;
    auto model = import(context);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    model->module->walk([](mlir::Operation* op) { EXPECT_FALSE(op->hasAttr("tessera.window")); });
    const auto& output = model->outputs[0];
    std::vector<int64_t> shape(output.shape().begin(), output.shape().end());
    for (const int64_t dim : output.bounded_dims()) shape[static_cast<size_t>(dim)] *= -1;
    return shape;
  }
};

void behind(ModelBuilder& b) {
  b.node("Identity", {"i"}, {"from"});
  b.node("Add", {"i", "three"}, {"to"});
}

TEST(LiveSlice, AWindowIsAsLongAsItsEndIsBehindItsStart) {
  const Sliced window(behind);
  EXPECT_THAT(window.most(), ElementsAre(-3));
  EXPECT_THAT(window.at(0), ElementsAre(0, 1, 2));
  EXPECT_THAT(window.at(5), ElementsAre(5, 6, 7));
  EXPECT_THAT(window.at(-4), ElementsAre(4, 5, 6));
  // At an end it is shorter.
  EXPECT_THAT(window.at(6), ElementsAre(6, 7));
  EXPECT_THAT(window.at(-1), ElementsAre());
  EXPECT_THAT(window.at(100), ElementsAre());
}

TEST(LiveSlice, WhatMustKnowHowLongItIsTakesItForWhole) {
  const Sliced window(behind, /*reshapes=*/true);
  EXPECT_THAT(window.most(), ElementsAre(1, 3));
  EXPECT_THAT(window.at(4), ElementsAre(4, 5, 6));
}

/// The number of nonzero elements of a window is data-decided, whatever its length.
TEST(LiveSlice, WhatTheDataCountOfAWindowIsNoWindow) {
  ModelBuilder b;
  b.input("x", {8}).input("i", {1}, kI64).output("z");
  b.initializer("three", std::vector<int64_t>{3});
  behind(b);
  b.node("Slice", {"x", "from", "to"}, {"y"});
  b.node("NonZero", {"y"}, {"places"});
  b.node("Shape", {"places"}, {"z"});
  mlir::MLIRContext context;
  auto model = importBytes(context, b.model.SerializeAsString());
  ASSERT_TRUE(model.ok()) << model.status();
  auto outputs = referenceRun(*std::move(model), {bytesOf<float>({0, 1, 2, 3, 0, 5, 0, 7}), bytesOf<int64_t>({4})});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(valuesOf<int64_t>((*outputs)[0]), ElementsAre(1, 1));
}

TEST(LiveSlice, AStartThatIsKeptInsideLeavesAllOfTheWindow) {
  const Sliced window([](ModelBuilder& b) {
    b.initializer("five", std::vector<int64_t>{5});
    b.node("Min", {"i", "five"}, {"low"});
    b.node("Max", {"low", "zero"}, {"from"});
    b.node("Add", {"from", "three"}, {"to"});
  });
  EXPECT_THAT(window.most(), ElementsAre(3));
  EXPECT_THAT(window.at(100), ElementsAre(5, 6, 7));
  EXPECT_THAT(window.at(-100), ElementsAre(0, 1, 2));
  const Sliced above([](ModelBuilder& b) {
    b.initializer("five", std::vector<int64_t>{5});
    b.node("Min", {"i", "five"}, {"from"});
    b.node("Add", {"from", "three"}, {"to"});
  });
  EXPECT_THAT(above.most(), ElementsAre(-3));
  EXPECT_THAT(above.at(-1), ElementsAre());
}

TEST(LiveSlice, OfOtherLengthsNothingIsTakenForGranted) {
  const auto most = [](const std::function<void(ModelBuilder&)>& bounds) { return Sliced(bounds).most(); };
  EXPECT_THAT(most([](ModelBuilder& b) {
                b.node("Identity", {"i"}, {"from"});
                b.node("Add", {"i", "i"}, {"to"});
              }),
              ElementsAre(-8));
  EXPECT_THAT(most([](ModelBuilder& b) {  // at most 7
                b.initializer("seven", std::vector<int64_t>{7});
                b.node("Identity", {"i"}, {"from"});
                b.node("Add", {"i", "three"}, {"end"});
                b.node("Min", {"end", "seven"}, {"to"});
              }),
              ElementsAre(-8));
  EXPECT_THAT(most([](ModelBuilder& b) {  // longer than there is
                b.initializer("nine", std::vector<int64_t>{9});
                b.node("Identity", {"i"}, {"from"});
                b.node("Add", {"i", "nine"}, {"to"});
              }),
              ElementsAre(-8));
  EXPECT_THAT(most([](ModelBuilder& b) {  // nothing
                b.node("Add", {"i", "three"}, {"from"});
                b.node("Identity", {"i"}, {"to"});
              }),
              ElementsAre(-8));
  mlir::MLIRContext context;
  EXPECT_FALSE(Sliced(
                   [](ModelBuilder& b) {
                     b.node("Identity", {"i"}, {"from"});
                     b.node("Add", {"i", "i"}, {"to"});
                   },
                   true)
                   .import(context)
                   .ok());
}

}  // namespace
}  // namespace tessera::compiler
