// Checks of whole models: every problem in one pass, and no false one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/import/testing/model_builder.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckTest : public testing::Test {
 protected:
  v1::CheckReport check(const onnx::ModelProto& model, const ImportOptions& options = {}) {
    absl::StatusOr<v1::CheckReport> report =
        checkOnnx(context_, writeFile(model.SerializeAsString(), "checked.onnx"), options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : v1::CheckReport();
  }

  static std::vector<std::string> nodesOf(const v1::CheckReport& report) {
    std::vector<std::string> nodes;
    for (const v1::Failure& problem : report.problems()) nodes.push_back(problem.node());
    return nodes;
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
};

TEST_F(CheckTest, AGoodModelHasNoProblems) {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y");
  b.node("Relu", {"x"}, {"r"}, "first");
  b.node("Softmax", {"r"}, {"y"}, "second");
  const v1::CheckReport report = check(b.model);
  EXPECT_THAT(report.problems(), IsEmpty()) << report.DebugString();
  EXPECT_EQ(report.nodes(), 2);
  ASSERT_EQ(report.operators_size(), 2);
  EXPECT_EQ(report.operators(0).name(), "Relu");
  EXPECT_TRUE(report.operators(0).supported());
  ASSERT_EQ(report.opsets_size(), 1);
  EXPECT_EQ(report.opsets(0).version(), 13);
  ASSERT_EQ(report.inputs_size(), 1);
  EXPECT_THAT(report.inputs(0).shape(), ElementsAre(2, 3));
}

TEST_F(CheckTest, RandomNumbersAndTextAreRefusedWithAdvice) {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y");
  b.node("RandomNormalLike", {"x"}, {"noise"}, "draws");
  b.node("Add", {"x", "noise"}, {"y"}, "depends");
  setAttribute(b.node("Constant", {}, {"word"}, "word"), "value_string", "cat");
  b.node("StringConcat", {"word", "word"}, {"words"}, "joins");
  b.output("words");
  const v1::CheckReport report = check(b.model);
  ASSERT_THAT(nodesOf(report), ElementsAre("draws", "word", "joins")) << report.DebugString();
  EXPECT_THAT(report.problems(0).fix(), HasSubstr("make them an input"));
  EXPECT_EQ(report.problems(1).found(), "text");
  for (const int k : {1, 2}) EXPECT_THAT(report.problems(k).fix(), HasSubstr("convert text to numbers")) << k;
}

TEST_F(CheckTest, EveryBadNodeIsNamedOnceAndWhatFollowsIsNot) {
  ModelBuilder b;
  b.input("x", {2, 3}).input("w", {5, 7}).output("y").output("z");
  b.node("MatMul", {"x", "w"}, {"m"}, "bad_shapes");
  b.node("Relu", {"m"}, {"after"}, "depends");
  b.node("Frobnicate", {"x"}, {"f"}, "unknown_operator");
  setAttribute(b.node("Softmax", {"x"}, {"s"}, "bad_axis"), "axis", int64_t{9});
  b.node("Add", {"after", "f"}, {"y"}, "depends_on_two");
  setAttribute(b.node("Relu", {"x"}, {"q"}, "odd_attribute"), "slope", int64_t{1});
  b.node("Add", {"s", "q"}, {"z"}, "depends_too");
  const v1::CheckReport report = check(b.model);
  EXPECT_THAT(nodesOf(report), ElementsAre("bad_shapes", "unknown_operator", "bad_axis", "odd_attribute"))
      << report.DebugString();
  EXPECT_EQ(report.problems(0).reason(), v1::Failure::INVALID_MODEL);
  EXPECT_EQ(report.problems(1).reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(report.unchecked_nodes(), 3);
  for (const auto& use : report.operators()) EXPECT_EQ(use.supported(), use.name() != "Frobnicate") << use.name();
}

TEST_F(CheckTest, DeclaredTypesCarryTheCheckOn) {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y");
  b.node("Frobnicate", {"x"}, {"f"}, "unknown_operator");
  setAttribute(b.node("Softmax", {"f"}, {"y"}, "bad_axis"), "axis", int64_t{9});
  EXPECT_THAT(nodesOf(check(b.model)), ElementsAre("unknown_operator"));
  onnx::ValueInfoProto& info = *b.graph().add_value_info();
  info.set_name("f");
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  info.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
  EXPECT_THAT(nodesOf(check(b.model)), ElementsAre("unknown_operator", "bad_axis"));
}

TEST_F(CheckTest, StaleDeclarationsAreNotBelieved) {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y");
  b.node("Relu", {"x"}, {"r"}, "first");
  b.node("Frobnicate", {"r"}, {"f"}, "unknown_operator");
  b.node("Add", {"f", "x"}, {"y"}, "fits_at_another_batch");
  for (const char* name : {"r", "f"}) {
    onnx::ValueInfoProto& info = *b.graph().add_value_info();
    info.set_name(name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    for (int64_t extent : {7, 3})
      info.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  EXPECT_THAT(nodesOf(check(b.model)), ElementsAre("unknown_operator"));
}

TEST_F(CheckTest, UnboundDimensionsAreNamedAndTheRestIsChecked) {
  ModelBuilder b;
  b.input("x", {-1, 3}).output("y");
  setAttribute(b.node("Softmax", {"x"}, {"y"}, "bad_axis"), "axis", int64_t{9});
  const v1::CheckReport report = check(b.model);
  ASSERT_EQ(report.problems_size(), 2);
  EXPECT_EQ(report.problems(0).reason(), v1::Failure::UNBOUND_DIMENSION);
  EXPECT_THAT(report.problems(0).fix(), HasSubstr("--shape"));
  EXPECT_EQ(report.problems(1).node(), "bad_axis");
  EXPECT_THAT(report.unbound_dimensions(), ElementsAre("N"));
  EXPECT_EQ(report.assumed(0).size(), 1);

  ImportOptions options;
  options.input_shapes["x"] = {4, 3};
  EXPECT_THAT(check(b.model, options).unbound_dimensions(), IsEmpty());
}

TEST_F(CheckTest, ImagesAreTakenLargeEnoughForTheirWindows) {
  ModelBuilder b;
  b.input("x", {1, 3, -1, -1}).output("y");
  b.initializer("w", {4, 3, 7, 7}, std::vector<float>(4 * 3 * 7 * 7, 0.5F));
  b.node("Conv", {"x", "w"}, {"y"}, "conv");
  const v1::CheckReport report = check(b.model);
  for (const v1::Failure& problem : report.problems()) {
    EXPECT_EQ(problem.reason(), v1::Failure::UNBOUND_DIMENSION) << problem.DebugString();
  }
  EXPECT_EQ(report.assumed(0).size(), 224);
}

TEST_F(CheckTest, ProblemsWithinSubgraphsAreFound) {
  ModelBuilder b;
  b.input("x", {2, 3}).input("c", {}, onnx::TensorProto::BOOL).output("y");
  onnx::NodeProto& branch = b.node("If", {"c"}, {"y"}, "branch");
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto& attribute = *branch.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    onnx::NodeProto& inner = *attribute.mutable_g()->add_node();
    inner.set_name(std::string("in_") + name);
    inner.set_op_type("Softmax");
    inner.add_input("x");
    inner.add_output("inner");
    setAttribute(inner, "axis", int64_t{5});
    attribute.mutable_g()->add_output()->set_name("inner");
  }
  const std::vector<std::string> nodes = nodesOf(check(b.model));
  EXPECT_THAT(nodes, testing::UnorderedElementsAre("in_then_branch", "in_else_branch"));
}

// A model compiles if one of two branches works; the other one is an error of its runs. If neither works, the check
// reports the problems of both.
TEST_F(CheckTest, ABranchThatDoesNotFitIsNoProblemWhereTheOtherFits) {
  for (const int64_t axis : {1, 5}) {  // of the else_branch
    ModelBuilder b;
    b.input("x", {2, 3}).input("c", {}, onnx::TensorProto::BOOL).output("y");
    onnx::NodeProto& branch = b.node("If", {"c"}, {"y"}, "branch");
    for (const char* name : {"then_branch", "else_branch"}) {
      onnx::AttributeProto& attribute = *branch.add_attribute();
      attribute.set_name(name);
      attribute.set_type(onnx::AttributeProto::GRAPH);
      for (const char* each : {"first", "second"}) {
        onnx::NodeProto& inner = *attribute.mutable_g()->add_node();
        inner.set_name(absl::StrCat(each, " in ", name));
        inner.set_op_type("Softmax");
        inner.add_input("x");
        inner.add_output(each);
        setAttribute(inner, "axis", attribute.name() == "else_branch" ? axis : 5);
      }
      onnx::NodeProto& sum = *attribute.mutable_g()->add_node();
      sum.set_op_type("Add");
      sum.add_input("first");
      sum.add_input("second");
      sum.add_output("sum");
      attribute.mutable_g()->add_output()->set_name("sum");
    }
    const v1::CheckReport report = check(b.model);
    if (axis == 5) {
      EXPECT_THAT(nodesOf(report), testing::UnorderedElementsAre("first in then_branch", "second in then_branch",
                                                                 "first in else_branch", "second in else_branch"));
      EXPECT_EQ(report.run_faults_size(), 0);
      continue;
    }
    EXPECT_EQ(report.problems_size(), 0) << report.DebugString();
    ASSERT_EQ(report.run_faults_size(), 1);
    EXPECT_THAT(report.run_faults(0), testing::HasSubstr("the then_branch of node 'branch' (If)"));
  }
}

TEST_F(CheckTest, GraphFaultsDoNotHideNodes) {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y").output("nowhere");
  b.node("Relu", {"missing"}, {"m"}, "reads_nothing");
  b.node("Add", {"later", "x"}, {"loop"}, "cycle_one");
  b.node("Relu", {"loop"}, {"later"}, "cycle_two");
  b.node("Frobnicate", {"x"}, {"y"}, "unknown_operator");
  b.initializer("short", {4}, {1.0F});
  const v1::CheckReport report = check(b.model);
  std::string all;
  for (const v1::Failure& problem : report.problems()) all += problem.message() + "\n";
  for (const char* part : {"'missing', which nothing defines", "cycle", "Frobnicate", "short", "'nowhere'"}) {
    EXPECT_THAT(all, HasSubstr(part));
  }
}

TEST_F(CheckTest, OneMissingFileIsOneProblem) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  for (const char* name : {"a", "b"}) {
    onnx::TensorProto& tensor = *b.graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key("location");
    entry.set_value("weights.bin");
  }
  b.node("Sum", {"x", "a", "b"}, {"y"}, "sum");
  const v1::CheckReport report = check(b.model);
  ASSERT_EQ(report.problems_size(), 1) << report.DebugString();
  EXPECT_EQ(report.problems(0).reason(), v1::Failure::MISSING_BLOB);
}

TEST_F(CheckTest, LongChainsOfFunctionsDoNotExhaustTheStack) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  onnx::OperatorSetIdProto& own = *b.model.add_opset_import();
  own.set_domain("own");
  own.set_version(1);
  constexpr int kFunctions = 20'000;
  for (int i = 0; i < kFunctions; ++i) {
    onnx::FunctionProto& function = *b.model.add_functions();
    function.set_domain("own");
    function.set_name("f" + std::to_string(i));
    function.add_input("a");
    function.add_output("r");
    onnx::OperatorSetIdProto& import = *function.add_opset_import();
    import.set_domain("own");
    import.set_version(1);
    onnx::NodeProto& node = *function.add_node();
    node.set_domain("own");
    node.set_op_type("f" + std::to_string(i + 1));
    node.add_input("a");
    node.add_output("r");
  }
  b.node("f0", {"x"}, {"y"}, "start").set_domain("own");
  const v1::CheckReport report = check(b.model);
  EXPECT_EQ(report.nodes(), kFunctions + 1);
  EXPECT_GE(report.problems_size(), 1);
}

}  // namespace
}  // namespace tessera::compiler
