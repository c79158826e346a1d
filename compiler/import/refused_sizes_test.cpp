// Sizes of ranges for which a model does not work, and the error messages.
#include "compiler/import/testing/model_builder.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RefusedSizes : public testing::Test {
 protected:
  struct Span {
    int64_t first, last, multiple;
    bool operator==(const Span&) const = default;
  };

  onnx::NodeProto& pool(const std::string& name, const std::string& from, int64_t window, int64_t stride) {
    auto& node = b_.node("MaxPool", {from}, {name}, name);
    setAttribute(node, "kernel_shape", std::vector<int64_t>{window});
    setAttribute(node, "strides", std::vector<int64_t>{stride});
    return node;
  }

  /// Imports with "N" as a range up to `most`.
  absl::Status import(int64_t most) {
    ImportOptions options;
    options.dimensions = {{"N", -most}};
    TESSERA_ASSIGN_OR_RETURN(auto model, importBytes(context_, b_.model.SerializeAsString(), options));
    for (const v1::RefusedSizes& sizes : model.refused_sizes) {
      EXPECT_EQ(sizes.dimension(), 0);
      spans_.push_back({sizes.first(), sizes.last(), sizes.multiple()});
      reasons_.push_back(sizes.reason());
    }
    return absl::OkStatus();
  }

  mlir::MLIRContext context_;
  ModelBuilder b_{17};
  std::vector<Span> spans_;
  std::vector<std::string> reasons_;
};

TEST_F(RefusedSizes, AreThoseOfEveryWindowThatAnImageIsSmallerThan) {
  b_.input("x", {1, 2, -1}).output("c");
  pool("a", "x", 2, 2);
  pool("b", "a", 2, 2);
  pool("c", "b", 2, 2);
  ASSERT_TRUE(import(64).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 1, 0}, Span{2, 3, 0}, Span{4, 7, 0}));
  EXPECT_THAT(reasons_[1], HasSubstr("node 'b' (MaxPool): the window of 2 is larger than spatial dimension 0, "
                                     "which is 1 long"));
}

/// Adds a row of positions to the result of a window of 6. The graph computes its length, n - 5, from the input's
/// shape: a negative number for sizes that the window refuses.
void addPositions(ModelBuilder& b, const std::string& windowed) {
  b.node("Shape", {"x"}, {"sizes"});
  b.initializer("last", {2}).clear_dims();
  setAttribute(b.node("Gather", {"sizes", "last"}, {"n"}), "axis", int64_t{0});
  b.initializer("five", {5}).clear_dims();
  b.node("Sub", {"n", "five"}, {"length"});
  b.initializer("zero", {0}).clear_dims();
  b.initializer("one", {1}).clear_dims();
  b.node("Range", {"zero", "length", "one"}, {"positions"}, "positions");
  setAttribute(b.node("Cast", {"positions"}, {"row"}), "to", int64_t{onnx::TensorProto::FLOAT});
  b.node("Add", {windowed, "row"}, {"y"});
}

TEST_F(RefusedSizes, MayHaveNegativeSizesInComputedShapes) {
  b_.input("x", {1, 2, -1}).output("y");
  pool("a", "x", 6, 1);
  addPositions(b_, "a");
  ASSERT_TRUE(import(64).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 5, 0}));
}

TEST_F(RefusedSizes, MayNotHaveThemInShapesBeforeTheWindow) {
  b_.input("x", {1, 2, -1}).output("y").output("a");
  addPositions(b_, "x");
  pool("a", "x", 6, 1);
  EXPECT_THAT(import(64).message(), HasSubstr("positions"));
}

/// Halves x twice, doubles the result twice, and joins it with x as networks for segmentation do.
void addSkipConnection(ModelBuilder& b, const std::string& op) {
  b.initializer("scales", {3}, {1, 1, 4});
  b.node("Resize", {"small", "", "scales"}, {"large"}, "double");
  auto& joined = b.node(op, {"large", "x"}, {"y"}, "join");
  if (op == "Concat") setAttribute(joined, "axis", int64_t{1});
}

TEST_F(RefusedSizes, AreNoMultiplesWhereAnImageIsHalvedAndDoubled) {
  for (const std::string op : {"Concat", "Add"}) {
    b_ = ModelBuilder(17);
    spans_.clear();
    reasons_.clear();
    b_.input("x", {1, 2, -1}).output("y");
    pool("half", "x", 2, 2);
    pool("small", "half", 2, 2);
    addSkipConnection(b_, op);
    ASSERT_TRUE(import(64).ok()) << op;
    EXPECT_THAT(spans_, testing::Contains(Span{1, 64, 4})) << op;
    EXPECT_THAT(reasons_, testing::Contains(HasSubstr("the inputs have equal sizes for no sizes but multiples of 4")));
  }
}

TEST_F(RefusedSizes, AreFoundBehindShapesThatAreComputed) {
  b_.input("x", {1, 4, -1, -1}).output("c");
  pool("a", "x", 2, 2);
  b_.node("Shape", {"a"}, {"shape"});
  b_.initializer("flat", {1, 4, -1});
  b_.node("Reshape", {"a", "flat"}, {"f"});
  b_.node("Relu", {"f"}, {"r"});
  b_.node("Reshape", {"r", "shape"}, {"b"});
  pool("c", "b", 3, 1);
  for (int at : {0, 5}) {
    auto& node = *b_.graph().mutable_node(at);
    node.clear_attribute();  // of images, not of rows
    setAttribute(node, "kernel_shape", std::vector<int64_t>(2, at == 0 ? 2 : 3));
    setAttribute(node, "strides", std::vector<int64_t>(2, at == 0 ? 2 : 1));
  }
  ASSERT_TRUE(import(24).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 1, 0}, Span{2, 5, 0}));
}

TEST_F(RefusedSizes, AreFoundBehindScalesThatAreWholeOrHalves) {
  b_.input("x", {1, 2, -1}).output("y").output("z");
  b_.initializer("twice", {3}, {1, 1, 2});
  b_.initializer("half", {3}, {1, 1, 0.5});
  for (const std::string scale : {"twice", "half"})
    setAttribute(b_.node("Resize", {"x", "", scale}, {scale + "_x"}), "mode", "linear");
  pool("y", "twice_x", 5, 1);
  pool("z", "half_x", 4, 1);
  ASSERT_TRUE(import(24).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 2, 0}, Span{3, 7, 0}));
}

TEST_F(RefusedSizes, CountPaddingAndSayWhoIsFirst) {
  b_.input("x", {1, 2, -1}).output("y").output("z");
  b_.initializer("w", {3, 2, 5}, std::vector<float>(30, 1.0F));
  for (const std::string name : {"y", "z"})
    setAttribute(b_.node("Conv", {"x", "w"}, {name}, name), "pads", std::vector<int64_t>{1, 1});
  ASSERT_TRUE(import(64).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 2, 0}));
  EXPECT_THAT(reasons_[0], HasSubstr("'y' (Conv): the window of 5 is larger than spatial dimension 0, which is 1 to 2 "
                                     "long and padded by 2"));
}

TEST_F(RefusedSizes, AreFoundOfLongWindows) {
  b_.input("x", {1, 2, -1}).output("y");
  pool("y", "x", 700, 1);
  ASSERT_TRUE(import(5000).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 699, 0}));
}

TEST_F(RefusedSizes, AreNoneWhereWindowsAreRoundedUpOrPaddedToTheSame) {
  b_.input("x", {1, 2, -1}).output("a").output("b");
  setAttribute(pool("a", "x", 2, 2), "ceil_mode", int64_t{1});
  setAttribute(pool("b", "x", 5, 3), "auto_pad", "SAME_UPPER");
  ASSERT_TRUE(import(64).ok());
  EXPECT_THAT(spans_, IsEmpty());
}

TEST_F(RefusedSizes, AreThoseThatATransposedConvolutionCutsAway) {
  b_.input("x", {1, 2, -1}).output("y");
  b_.initializer("w", {2, 3, 1}, std::vector<float>(6, 1.0F));
  setAttribute(b_.node("ConvTranspose", {"x", "w"}, {"y"}, "y"), "pads", std::vector<int64_t>{1, 1});
  ASSERT_TRUE(import(64).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 2, 0}));
  EXPECT_THAT(reasons_[0], HasSubstr("nothing is left of spatial dimension 0"));
}

TEST_F(RefusedSizes, AreNotThoseOfABranchThatMayNotBeTaken) {
  b_.input("x", {1, 2, -1}).input("c", {}, onnx::TensorProto::BOOL).output("y");
  auto& choice = b_.node("If", {"c"}, {"y"});
  for (const std::string branch : {"then_branch", "else_branch"}) {
    auto& attribute = *choice.add_attribute();
    attribute.set_name(branch);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    ModelBuilder body(17);
    body.output("r");
    auto& node = body.node("MaxPool", {"x"}, {"r"});
    setAttribute(node, "kernel_shape", std::vector<int64_t>{branch == "then_branch" ? 3 : 1});
    *attribute.mutable_g() = body.graph();
  }
  ASSERT_TRUE(import(64).ok());
  EXPECT_THAT(spans_, IsEmpty());
}

TEST_F(RefusedSizes, AreAllButMultiplesOfAWindowThatIsNotPadded) {
  b_.input("x", {1, -1, 4}).output("y").output("m");
  b_.initializer("windows", {1, -1, 7, 4});
  b_.initializer("back", {1, -1, 4});
  b_.node("Reshape", {"x", "windows"}, {"w"}, "cut");
  setAttribute(b_.node("ReduceMean", {"w"}, {"m"}), "axes", std::vector<int64_t>{2});
  b_.node("Reshape", {"w", "back"}, {"y"}, "joined");
  ASSERT_TRUE(import(224).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 224, 7}));
  EXPECT_THAT(reasons_[0], HasSubstr("node 'cut' (Reshape): the elements make up the new shape for no sizes but "
                                     "multiples of 7"));
}

TEST_F(RefusedSizes, AreThoseThatBlocksDoNotMakeUp) {
  b_.input("x", {1, 2, -1, -1}).output("y").output("z");
  setAttribute(b_.node("SpaceToDepth", {"x"}, {"y"}, "y"), "blocksize", int64_t{3});
  setAttribute(b_.node("SpaceToDepth", {"x"}, {"z"}, "z"), "blocksize", int64_t{2});
  ASSERT_TRUE(import(60).ok());
  EXPECT_THAT(spans_, ElementsAre(Span{1, 60, 3}, Span{1, 60, 6}));
  EXPECT_THAT(reasons_[1], HasSubstr("node 'z' (SpaceToDepth): the image can be cut in blocks for no sizes but "
                                     "multiples of 6"));
}

TEST_F(RefusedSizes, AreOfTheGreatestSizeAnErrorWhenCompiling) {
  b_.input("x", {1, -1, 4}).output("y");
  b_.initializer("windows", {1, -1, 7, 4});
  b_.node("Reshape", {"x", "windows"}, {"y"}, "cut");
  EXPECT_THAT(std::string(import(223).message()), HasSubstr("cut"));
}

TEST_F(RefusedSizes, AreNotWhatIsRefusedWhole) {
  b_.input("x", {3, -1}).output("y");
  b_.initializer("shape", {-1, 2});
  b_.node("Reshape", {"x", "shape"}, {"t"}, "pairs");
  b_.initializer("columns", {2, -1});
  b_.node("Reshape", {"t", "columns"}, {"r"}, "columns");
  b_.initializer("sixty", {60, 1});
  b_.node("Reshape", {"r", "sixty"}, {"y"}, "one size alone");
  EXPECT_FALSE(import(20).ok());
}

}  // namespace
}  // namespace tessera::compiler
