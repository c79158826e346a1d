// Shape values that depend on data-decided extents, as exporters compute them from the rows of a mask.
#include "compiler/import/shape_value_analysis.h"

#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Shapes = std::vector<std::vector<int64_t>>;

class FollowedData : public testing::Test {
 protected:
  /// The first output of a run; its shape is in `shape`.
  std::vector<float> run(const ModelBuilder& b, const std::vector<std::string>& inputs) {
    mlir::MLIRContext context;
    auto model = importBytes(context, b.model.SerializeAsString());
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    Shapes shapes;
    auto outputs = referenceRun(*std::move(model), inputs, &shapes);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (!outputs.ok()) return {};
    shape = shapes.empty() ? std::vector<int64_t>{} : shapes[0];
    return valuesOf<float>((*outputs)[0]);
  }
  std::vector<int64_t> shape;
};

/// The rows of x[4, 2] whose mask[4] is not 0: `rows`, their indices `places` [n], and n as a list, `count`.
ModelBuilder picked() {
  ModelBuilder b(16);
  b.input("x", {4, 2}).input("mask", {4}).output("y");
  b.initializer("axis0", {0});
  b.initializer("axis1", {1});
  b.initializer("two", {2});
  b.node("NonZero", {"mask"}, {"where"});
  b.node("Squeeze", {"where", "axis0"}, {"places"});
  b.node("Gather", {"x", "places"}, {"rows"});
  b.node("Shape", {"places"}, {"count"});
  return b;
}

std::string table() { return bytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8}); }
std::string none() { return bytesOf<float>({0, 0, 0, 0}); }
std::string outer() { return bytesOf<float>({1, 0, 0, 1}); }
std::string all() { return bytesOf<float>({1, 1, 1, 1}); }

TEST_F(FollowedData, ReshapesToAsManyRows) {
  ModelBuilder b = picked();
  b.initializer("pair", {1, 2});
  setAttribute(b.node("Concat", {"count", "pair"}, {"shape"}), "axis", 0);
  b.node("Reshape", {"rows", "shape"}, {"y"});
  EXPECT_THAT(run(b, {table(), outer()}), ElementsAre(1, 2, 7, 8));
  EXPECT_THAT(shape, ElementsAre(2, 1, 2));
  EXPECT_THAT(run(b, {table(), none()}), IsEmpty());
  EXPECT_THAT(shape, ElementsAre(0, 1, 2));
}

// In memory the extent stays separate from the pairs, but not if read as columns.
TEST_F(FollowedData, ReshapesWhatLiesApart) {
  ModelBuilder b = picked();
  b.initializer("flat", {-1});
  b.node("Transpose", {"rows"}, {"columns"});
  b.node("Reshape", {"columns", "flat"}, {"y"});
  EXPECT_THAT(run(b, {table(), outer()}), ElementsAre(1, 7, 2, 8));
  EXPECT_THAT(shape, ElementsAre(4));
  EXPECT_THAT(run(b, {table(), none()}), IsEmpty());
}

TEST_F(FollowedData, MakesAsManyAndRepeatsForEach) {
  ModelBuilder b = picked();
  setAttribute(b.node("Concat", {"count", "two"}, {"shape"}), "axis", 0);
  b.node("ConstantOfShape", {"shape"}, {"zeros"});
  b.initializer("row", {1, 2}, {10, 20});
  b.node("Expand", {"row", "shape"}, {"each"});
  b.node("Add", {"zeros", "each"}, {"sum"});
  b.node("Sub", {"sum", "rows"}, {"y"});
  EXPECT_THAT(run(b, {table(), outer()}), ElementsAre(9, 18, 3, 12));
  EXPECT_THAT(shape, ElementsAre(2, 2));
}

// rows.chunk(2, -1): the end is half of the last size, which is known although the first is not.
TEST_F(FollowedData, SizesBesideTheCountAreKnown) {
  ModelBuilder b = picked();
  b.initializer("last", {-1});
  b.node("Shape", {"rows"}, {"sizes"});
  b.node("Gather", {"sizes", "last"}, {"width"});
  b.node("Div", {"width", "two"}, {"half"});
  b.node("Slice", {"rows", "half", "width", "axis1"}, {"y"});
  EXPECT_THAT(run(b, {table(), outer()}), ElementsAre(2, 8));
  EXPECT_THAT(shape, ElementsAre(2, 1));
}

TEST_F(FollowedData, ReshapesToAnotherCountAreRefused) {
  ModelBuilder b = picked();
  b.input("other", {4});
  b.node("NonZero", {"other"}, {"others"});
  b.node("Squeeze", {"others", "axis0"}, {"other_places"});
  b.node("Shape", {"other_places"}, {"other_count"});
  setAttribute(b.node("Concat", {"other_count", "two"}, {"shape"}), "axis", 0);
  b.node("Reshape", {"rows", "shape"}, {"y"});
  mlir::MLIRContext context;
  const v1::Failure failure = failureOf(importBytes(context, b.model.SerializeAsString()).status());
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_THAT(failure.message(), HasSubstr("known only at run time (at most 4)"));
}

// x[m] + z[m]: the exporter evaluates the mask twice.
TEST_F(FollowedData, RowsThatAreLookedForTwiceAreAsMany) {
  ModelBuilder b = picked();
  b.input("z", {4, 2});
  for (const char* name : {"first", "second"}) {
    const std::string n = name;
    b.node("Greater", {"mask", n + "_least"}, {n + "_mask"});
    b.initializer(n + "_least", {}, {0});
    b.node("NonZero", {n + "_mask"}, {n + "_where"});
    b.node("Squeeze", {n + "_where", "axis0"}, {n + "_places"});
    b.node("Gather", {n == "first" ? "x" : "z", n + "_places"}, {n + "_rows"});
  }
  b.node("Add", {"first_rows", "second_rows"}, {"y"});
  const std::string z = bytesOf<float>({10, 20, 30, 40, 50, 60, 70, 80});
  EXPECT_THAT(run(b, {table(), outer(), z}), ElementsAre(11, 22, 77, 88));
  EXPECT_THAT(shape, ElementsAre(2, 2));
}

TEST_F(FollowedData, RowsOfAnotherMaskAreNot) {
  ModelBuilder b = picked();
  b.input("other", {4});
  b.node("NonZero", {"other"}, {"others"});
  b.node("Squeeze", {"others", "axis0"}, {"other_places"});
  b.node("Gather", {"x", "other_places"}, {"other_rows"});
  b.node("Add", {"rows", "other_rows"}, {"y"});
  mlir::MLIRContext context;
  const v1::Failure failure = failureOf(importBytes(context, b.model.SerializeAsString()).status());
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_THAT(failure.message(), HasSubstr("may differ from that of input 0"));
}

// Rows beyond the extent are written nowhere: the indices of rows that were not found point to row 0.
TEST_F(FollowedData, RowsAreWrittenBackWhereTheyWere) {
  for (const bool adds : {false, true}) {
    ModelBuilder b = picked();
    b.node("Add", {"rows", "rows"}, {"doubled"});
    b.node("Unsqueeze", {"places", "axis1"}, {"indices"});
    auto& node = b.node("ScatterND", {"x", "indices", "doubled"}, {"y"});
    if (adds) setAttribute(node, "reduction", std::string("add"));
    if (adds) {
      EXPECT_THAT(run(b, {table(), outer()}), ElementsAre(3, 6, 3, 4, 5, 6, 21, 24));
    } else {
      EXPECT_THAT(run(b, {table(), outer()}), ElementsAre(2, 4, 3, 4, 5, 6, 14, 16));
    }
    EXPECT_THAT(run(b, {table(), none()}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_THAT(run(b, {table(), all()}).size(), 8);
  }
}

TEST_F(FollowedData, ElementsAreAddedWhereTheyWere) {
  ModelBuilder b = picked();
  setAttribute(b.node("Concat", {"count", "two"}, {"shape"}), "axis", 0);
  b.node("Unsqueeze", {"places", "axis1"}, {"column"});
  b.node("Expand", {"column", "shape"}, {"indices"});
  setAttribute(b.node("ScatterElements", {"x", "indices", "rows"}, {"y"}), "reduction", std::string("add"));
  EXPECT_THAT(run(b, {table(), outer()}), ElementsAre(2, 4, 3, 4, 5, 6, 14, 16));
  EXPECT_THAT(run(b, {table(), none()}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(FollowedData, UpdatesOfAnotherCountAreRefused) {
  ModelBuilder b = picked();
  b.node("Unsqueeze", {"places", "axis1"}, {"indices"});
  b.node("ScatterND", {"x", "indices", "x"}, {"y"});
  mlir::MLIRContext context;
  const v1::Failure failure = failureOf(importBytes(context, b.model.SerializeAsString()).status());
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_THAT(failure.message(), HasSubstr("the extents of data, indices and updates may differ"));
}

}  // namespace
}  // namespace tessera::compiler
