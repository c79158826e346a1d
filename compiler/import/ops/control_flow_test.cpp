// Control flow that ONNX's own cases do not cover: run-time conditions, backward iterations, and writes at indices
// outside the tensor.
#include <cmath>

#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "compiler/ir/loop_op.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;

/// Adds an empty graph as the attribute `name`.
onnx::GraphProto& subgraph(onnx::NodeProto& node, const std::string& name) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  return *attribute->mutable_g();
}
void add(onnx::GraphProto& graph, const std::string& op, const std::vector<std::string>& inputs,
         const std::string& output) {
  auto* node = graph.add_node();
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
}

class ControlFlow : public testing::Test {
 protected:
  std::vector<float> run(const ModelBuilder& builder, const std::vector<std::string>& inputs) {
    auto imported = importBytes(context, builder.model.SerializeAsString());
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return {};
    faults = imported->run_faults;
    auto results = referenceRun(*std::move(imported), inputs);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? valuesOf<float>(results->front()) : std::vector<float>{};
  }
  /// The error of a run whose model compiles; empty where it has results.
  std::string errorOfRun(const ModelBuilder& builder, const std::vector<std::string>& inputs) {
    auto imported = importBytes(context, builder.model.SerializeAsString());
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return std::string(imported.status().message());
    faults = imported->run_faults;
    return std::string(referenceRun(*std::move(imported), inputs).status().message());
  }
  std::vector<std::string> faults;  ///< of the model that ran last
  mlir::MLIRContext context;
};

TEST_F(ControlFlow, IfSelectsAtRunTime) {
  ModelBuilder b;
  b.input("c", {}, onnx::TensorProto::BOOL).input("x", {2}).output("y");
  auto& node = b.node("If", {"c"}, {"y"});
  auto& yes = subgraph(node, "then_branch");
  add(yes, "Neg", {"x"}, "n");
  yes.add_output()->set_name("n");
  auto& no = subgraph(node, "else_branch");
  add(no, "Add", {"x", "x"}, "d");
  no.add_output()->set_name("d");
  const std::string x = bytesOf<float>({1, 2});
  EXPECT_THAT(run(b, {bytesOf<int8_t>({1}), x}), ElementsAre(-1, -2));
  EXPECT_THAT(run(b, {bytesOf<int8_t>({0}), x}), ElementsAre(2, 4));
}

/// y = c ? ReduceMax(x) : -x, with `keep` as the reduction's keepdims.
ModelBuilder branchesOfDifferentShapes(int64_t keep) {
  ModelBuilder b;
  b.input("c", {}, onnx::TensorProto::BOOL).input("x", {3}).output("y");
  auto& node = b.node("If", {"c"}, {"y"}, "choice");
  auto& yes = subgraph(node, "then_branch");
  add(yes, "ReduceMax", {"x"}, "m");
  setAttribute(*yes.mutable_node(0), "keepdims", keep);
  yes.add_output()->set_name("m");
  auto& no = subgraph(node, "else_branch");
  add(no, "Neg", {"x"}, "d");
  no.add_output()->set_name("d");
  return b;
}

TEST_F(ControlFlow, IfOfDifferentRanksNeedsAConstant) {
  auto imported = importBytes(context, branchesOfDifferentShapes(0).model.SerializeAsString());
  const v1::Failure failure = failureOf(imported.status());
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(failure.node(), "choice");
  EXPECT_EQ(failure.found(), "a run-time value");
}

TEST_F(ControlFlow, IfOfDifferentSizesHasTheSizeOfItsChoice) {
  const ModelBuilder b = branchesOfDifferentShapes(1);
  const std::string x = bytesOf<float>({1, 5, 2});
  EXPECT_THAT(run(b, {bytesOf<int8_t>({1}), x}), ElementsAre(5));
  EXPECT_THAT(run(b, {bytesOf<int8_t>({0}), x}), ElementsAre(-1, -5, -2));
}

/// Adds the nodes of PyTorch's exporter that convert `pads` from PyTorch's order (last dimension first) to ONNX's.
void addPadding(onnx::GraphProto& graph, const std::string& name, const std::vector<int64_t>& pads,
                const std::string& result) {
  auto constant = [&](const std::string& value, const std::vector<int64_t>& elements) {
    auto* node = graph.add_node();
    node->set_op_type("Constant");
    node->add_output(name + value);
    setAttribute(*node, "value_ints", elements);
    return name + value;
  };
  const auto last = constant("last", {-1}), first = constant("first", {0});
  add(graph, "ConstantOfShape", {constant("missing", {4 - static_cast<int64_t>(pads.size())})}, name + "zeros");
  add(graph, "Cast", {name + "zeros"}, name + "whole");
  setAttribute(*graph.mutable_node(graph.node_size() - 1), "to", int64_t{onnx::TensorProto::INT64});
  add(graph, "Concat", {constant("pads", pads), name + "whole"}, name + "all");
  setAttribute(*graph.mutable_node(graph.node_size() - 1), "axis", int64_t{0});
  add(graph, "Reshape", {name + "all", constant("pairs", {-1, 2})}, name + "table");
  add(graph, "Slice", {name + "table", last, constant("least", {INT64_MIN + 1}), first, last}, name + "turned");
  add(graph, "Transpose", {name + "turned"}, name + "columns");
  add(graph, "Reshape", {name + "columns", last}, name + "list");
  add(graph, "Cast", {name + "list"}, name + "final");
  setAttribute(*graph.mutable_node(graph.node_size() - 1), "to", int64_t{onnx::TensorProto::INT64});
  add(graph, "Pad", {"x", name + "final"}, result);
  graph.add_output()->set_name(result);
}

TEST_F(ControlFlow, ABranchThatDoesNotFitSaysWhichValueTakesTheOther) {
  for (const int64_t columns : {3, 2}) {  // of the true branch; the false one has five minus these
    ModelBuilder b;
    b.input("x", {6}).input("sample rate", {1}, onnx::TensorProto::INT64).output("y");
    b.initializer("known", std::vector<int64_t>{16000});
    b.node("Equal", {"sample rate", "known"}, {"is known"});
    auto& node = b.node("If", {"is known"}, {"y"}, "choice");
    for (const std::string name : {"then_branch", "else_branch"}) {
      auto& branch = subgraph(node, name);
      add(branch, "Constant", {}, name + " shape");
      setAttribute(*branch.mutable_node(0), "value_ints",
                   std::vector<int64_t>{2, name == "then_branch" ? columns : 5 - columns});
      add(branch, "Reshape", {"x", name + " shape"}, name);
      branch.add_output()->set_name(name);
    }
    const auto imported = importBytes(context, b.model.SerializeAsString());
    if (columns == 3) {  // one value selects it, so runs with any other value are refused
      ASSERT_TRUE(imported.ok()) << imported.status();
      ASSERT_EQ(imported->fixed_inputs.size(), 1U);
      EXPECT_EQ(imported->fixed_inputs[0].spec().name(), "sample rate");
      EXPECT_EQ(imported->fixed_inputs[0].data(), bytesOf<int64_t>({16000}));
      continue;
    }
    // All other values take it: the runs of that one value alone are errors.
    const std::string x = bytesOf<float>({1, 2, 3, 4, 5, 6});
    EXPECT_THAT(run(b, {x, bytesOf<int64_t>({8000})}), ElementsAre(1, 2, 3, 4, 5, 6));
    const std::string error = errorOfRun(b, {x, bytesOf<int64_t>({16000})});
    EXPECT_THAT(error,
                testing::StartsWith("the run takes the then_branch of node 'choice' (If), which cannot be computed "
                                    "for the sizes that the model was compiled for: node"));
    EXPECT_THAT(error,
                testing::EndsWith("; give input 'sample rate' any value but 16000, or compile the model for sizes "
                                  "that the branch works for"));
    // An artifact of several sizes has no value that all of them work for.
    ImportOptions of_several;
    of_several.fix_inputs_of_branches = false;
    const auto other = importBytes(context, b.model.SerializeAsString(), of_several);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_TRUE(other->fixed_inputs.empty());
    EXPECT_EQ(other->run_faults.size(), 1U);
  }
}

/// Adds an If with x as `result`: in the shape 2 x 3 if `condition` holds, otherwise in one with another number of
/// elements.
void addHalfFitting(onnx::GraphProto& graph, const std::string& condition, const std::string& x,
                    const std::string& result, const std::string& label) {
  auto* node = graph.add_node();
  node->set_op_type("If");
  node->set_name(label);
  node->add_input(condition);
  node->add_output(result);
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& branch = subgraph(*node, name);
    add(branch, "Constant", {}, label + name + " shape");
    setAttribute(*branch.mutable_node(0), "value_ints",
                 std::vector<int64_t>{2, std::string(name) == "then_branch" ? 3 : 2});
    add(branch, "Reshape", {x, label + name + " shape"}, label + name);
    branch.add_output()->set_name(label + name);
  }
}

const std::string kSix = bytesOf<float>({1, 2, 3, 4, 5, 6});
const std::string kYes = bytesOf<int8_t>({1}), kNo = bytesOf<int8_t>({0});

// Large data decide, so the error names no input.
TEST_F(ControlFlow, ABranchThatDoesNotFitIsAnErrorOfTheRunsThatTakeIt) {
  ModelBuilder b(13);
  b.input("x", {6}).input("data", {20'000}).output("y");
  b.node("ReduceMax", {"data"}, {"largest"});
  b.node("ReduceMin", {"data"}, {"least"});
  b.node("Less", {"least", "largest"}, {"varies"});
  addHalfFitting(b.graph(), "varies", "x", "y", "choice");
  std::vector<float> data(20'000, 1);
  EXPECT_THAT(errorOfRun(b, {kSix, bytesOf(data)}),
              testing::AllOf(testing::StartsWith("the run takes the else_branch of node 'choice' (If)"),
                             testing::EndsWith("; compile the model for sizes that the branch works for")));
  data[19'999] = 2;
  EXPECT_THAT(run(b, {kSix, bytesOf(data)}), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(ControlFlow, ABranchThatNoRunReachesIsNoError) {
  ModelBuilder b;
  b.input("outer", {}, onnx::TensorProto::BOOL).input("inner", {}, onnx::TensorProto::BOOL).input("x", {6}).output("y");
  auto& node = b.node("If", {"outer"}, {"y"}, "around");
  auto& yes = subgraph(node, "then_branch");
  addHalfFitting(yes, "inner", "x", "fitting", "within");
  yes.add_output()->set_name("fitting");
  auto& no = subgraph(node, "else_branch");
  addHalfFitting(no, "outer", "x", "unused", "unread");
  add(no, "Constant", {}, "table");
  setAttribute(*no.mutable_node(1), "value_ints", std::vector<int64_t>{2, 3});
  add(no, "Neg", {"x"}, "negative");
  add(no, "Reshape", {"negative", "table"}, "negatives");
  no.add_output()->set_name("negatives");
  EXPECT_THAT(run(b, {kYes, kYes, kSix}), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(run(b, {kNo, kYes, kSix}), ElementsAre(-1, -2, -3, -4, -5, -6));
  EXPECT_THAT(run(b, {kNo, kNo, kSix}), ElementsAre(-1, -2, -3, -4, -5, -6));
  EXPECT_THAT(errorOfRun(b, {kYes, kNo, kSix}), testing::HasSubstr("the else_branch of node 'within' (If)"));
  EXPECT_EQ(faults.size(), 1U) << "nothing reads 'unread'";
}

TEST_F(ControlFlow, TheFirstBranchOfARunThatDoesNotFitIsItsError) {
  ModelBuilder b;
  b.input("first", {}, onnx::TensorProto::BOOL)
      .input("second", {}, onnx::TensorProto::BOOL)
      .input("x", {6})
      .output("y");
  addHalfFitting(b.graph(), "first", "x", "a", "one");
  addHalfFitting(b.graph(), "second", "x", "b", "two");
  b.node("Add", {"a", "b"}, {"y"});
  EXPECT_THAT(run(b, {kYes, kYes, kSix}), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(errorOfRun(b, {kYes, kNo, kSix}), testing::HasSubstr("'two'"));
  EXPECT_THAT(errorOfRun(b, {kNo, kYes, kSix}), testing::HasSubstr("'one'"));
  EXPECT_THAT(errorOfRun(b, {kNo, kNo, kSix}), testing::HasSubstr("'one'"));
}

/// y = x + x, `trips` times while `goes`; each iteration adds what fits where `fits` holds. `grows`: `rows` is longer
/// after each one.
ModelBuilder loopWithABranch(int64_t trips, bool grows = false) {
  ModelBuilder b(16);
  b.input("goes", {}, onnx::TensorProto::BOOL).input("fits", {}, onnx::TensorProto::BOOL).input("x", {2, 3});
  b.output("y").output("rows");
  b.initializer("trips", {trips});
  auto& node = b.node("Loop", {"trips", "goes", "x", "x"}, {"y", "rows"});
  auto& body = subgraph(node, "body");
  for (const char* name : {"i", "go", "v", "all"}) body.add_input()->set_name(name);
  addHalfFitting(body, "fits", "v", "again", "choice");
  add(body, "Add", {"v", "again"}, "next");
  add(body, grows ? "Concat" : "Add", {"all", "again"}, "longer");
  if (grows) setAttribute(*body.mutable_node(body.node_size() - 1), "axis", 0);
  add(body, "Identity", {"go"}, "goes on");
  for (const char* name : {"goes on", "next", "longer"}) body.add_output()->set_name(name);
  return b;
}

TEST_F(ControlFlow, AnIterationThatNoRunMakesIsNoError) {
  // Written out, a loop, and a loop that is written out after all since its sizes change.
  for (const auto& [trips, grows] : {std::pair(4, false), {20, false}, {20, true}}) {
    const ModelBuilder b = loopWithABranch(trips, grows);
    const std::vector<float> result = run(b, {kYes, kYes, kSix});
    ASSERT_EQ(result.size(), 6U);
    EXPECT_EQ(result[1], std::ldexp(2.0F, trips));
    EXPECT_EQ(faults.size(), 1U) << trips << " iterations have one error";
    EXPECT_THAT(errorOfRun(b, {kYes, kNo, kSix}), testing::HasSubstr("the else_branch of node 'choice' (If)"));
    EXPECT_THAT(run(b, {kNo, kNo, kSix}), ElementsAre(1, 2, 3, 4, 5, 6)) << "no iteration runs";
  }
  EXPECT_THAT(run(loopWithABranch(0), {kYes, kNo, kSix}), ElementsAre(1, 2, 3, 4, 5, 6));
}

// An iteration that stands in for none shows what size its rows have.
TEST_F(ControlFlow, RowsOfNoIterationAreNoError) {
  ModelBuilder b(16);
  b.input("fits", {}, onnx::TensorProto::BOOL).input("x", {6}).output("rows");
  b.initializer("none", {0});
  auto& body = subgraph(b.node("Loop", {"none", ""}, {"rows"}), "body");
  for (const char* name : {"i", "go"}) body.add_input()->set_name(name);
  addHalfFitting(body, "fits", "x", "row", "choice");
  for (const char* name : {"go", "row"}) body.add_output()->set_name(name);
  EXPECT_THAT(run(b, {kNo, kSix}), testing::IsEmpty());
  EXPECT_THAT(faults, testing::IsEmpty());
}

// The loop itself is lowered first, with a number that runs count; then written out, since only constants go in, or
// since its body ends it: the numbers of its iterations are known, and none takes the other branch.
TEST_F(ControlFlow, ALoopThatIsWrittenOutAfterAllLeavesNoErrorBehind) {
  for (const bool once : {false, true}) {
    ModelBuilder b(16);
    b.input("x", {2, 3}).output("y");
    b.initializer("trips", {20});
    b.initializer("bound", {1000});
    b.initializer("six", {6}, {1, 2, 3, 4, 5, 6});
    b.initializer("zeros", {2, 3}, {0, 0, 0, 0, 0, 0});
    auto& body = subgraph(b.node("Loop", {"trips", "", once ? "x" : "zeros"}, {"sum"}), "body");
    for (const char* name : {"i", "go", "v"}) body.add_input()->set_name(name);
    add(body, "Less", {"i", "bound"}, "few");
    addHalfFitting(body, "few", "six", "table", "choice");
    add(body, "Add", {"v", "table"}, "next");
    add(body, once ? "Less" : "Equal", {"bound", "bound"}, "more");
    for (const char* name : {"more", "next"}) body.add_output()->set_name(name);
    b.node("Add", {"x", "sum"}, {"y"});
    const std::string zeros = bytesOf<float>({0, 0, 0, 0, 0, 0});
    EXPECT_THAT(run(b, {zeros}), once ? ElementsAre(1, 2, 3, 4, 5, 6) : ElementsAre(20, 40, 60, 80, 100, 120));
    EXPECT_THAT(faults, testing::IsEmpty());
  }
}

TEST_F(ControlFlow, ABranchOfAScanIsAnErrorToo) {
  for (const int64_t steps : {3, 20}) {
    ModelBuilder b;
    b.input("s", {2, 3}).input("x", {steps, 1}, onnx::TensorProto::BOOL).output("last");
    auto& node = b.node("Scan", {"s", "x"}, {"last"});
    setAttribute(node, "num_scan_inputs", 1);
    auto& body = subgraph(node, "body");
    for (const char* name : {"state", "fits"}) body.add_input()->set_name(name);
    addHalfFitting(body, "fits", "state", "next", "choice");
    body.add_output()->set_name("next");
    std::string fits(static_cast<size_t>(steps), '\1');
    EXPECT_THAT(run(b, {kSix, fits}), ElementsAre(1, 2, 3, 4, 5, 6));
    fits[static_cast<size_t>(steps) - 2] = '\0';
    EXPECT_THAT(errorOfRun(b, {kSix, fits}), testing::HasSubstr("the else_branch of node 'choice' (If)"));
  }
}

TEST_F(ControlFlow, PaddingIsComputedInsideOfAnIf) {
  ModelBuilder b;
  b.input("c", {}, onnx::TensorProto::BOOL).input("x", {1, 2}).output("y");
  auto& node = b.node("If", {"c"}, {"y"});
  addPadding(subgraph(node, "then_branch"), "a", {1, 0}, "left");
  addPadding(subgraph(node, "else_branch"), "b", {0, 1, 0, 0}, "right");
  const std::string x = bytesOf<float>({1, 2});
  EXPECT_THAT(run(b, {bytesOf<int8_t>({1}), x}), ElementsAre(0, 1, 2));
  EXPECT_THAT(run(b, {bytesOf<int8_t>({0}), x}), ElementsAre(1, 2, 0));
}

/// x doubles while it is below `limit`, at most eight times.
ModelBuilder doublingLoop() {
  ModelBuilder b;
  b.input("x", {1}).input("limit", {1}).output("y");
  b.initializer("trips", {8});
  b.node("Less", {"x", "limit"}, {"start"});
  auto& node = b.node("Loop", {"trips", "start", "x"}, {"y"});
  auto& body = subgraph(node, "body");
  for (const char* name : {"i", "go", "v"}) body.add_input()->set_name(name);
  add(body, "Add", {"v", "v"}, "next");
  add(body, "Less", {"next", "limit"}, "again");
  for (const char* name : {"again", "next"}) body.add_output()->set_name(name);
  return b;
}

TEST_F(ControlFlow, LoopStopsWhenItsConditionSaysSo) {
  const ModelBuilder b = doublingLoop();
  EXPECT_THAT(run(b, {bytesOf<float>({3}), bytesOf<float>({20})}), ElementsAre(24));
  EXPECT_THAT(run(b, {bytesOf<float>({3}), bytesOf<float>({2})}), ElementsAre(3));
  EXPECT_THAT(run(b, {bytesOf<float>({1}), bytesOf<float>({1e9F})}), ElementsAre(256));
}

TEST_F(ControlFlow, LoopWithoutEndIsRefused) {
  ModelBuilder b;
  b.input("x", {1}).output("y");
  auto& node = b.node("Loop", {"", "", "x"}, {"y"});
  auto& body = subgraph(node, "body");
  for (const char* name : {"i", "go", "v"}) body.add_input()->set_name(name);
  for (const char* name : {"go", "v"}) body.add_output()->set_name(name);
  const v1::Failure failure = failureOf(importBytes(context, b.model.SerializeAsString()).status());
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(failure.found(), "no end");
}

/// while v < limit and count < `most`: v = v + v, concatenated to the earlier values if `grows`. As torch.jit.script
/// writes it, without a trip count: the condition is an If or, in the other order, an If whose branches are constants.
ModelBuilder countedLoop(int64_t most, bool count_first, bool grows) {
  ModelBuilder b(16);
  b.input("x", {1}).input("limit", {1}).output("y");
  b.initializer("most", {most});
  b.initializer("zero", {0});
  b.initializer("one", {1});
  b.node("Less", {"x", "limit"}, {"start"});
  b.node("Loop", {"", "start", "zero", "x", "x"}, {"count", "last", "y"});
  auto& node = *b.model.mutable_graph()->mutable_node(b.model.graph().node_size() - 1);
  auto& body = subgraph(node, "body");
  for (const char* name : {"i", "go", "n", "v", "all"}) body.add_input()->set_name(name);
  add(body, "Add", {"n", "one"}, "next_n");
  add(body, "Add", {"v", "v"}, "next");
  add(body, grows ? "Concat" : "Add", {grows ? "all" : "v", grows ? "next" : "v"}, "next_all");
  if (grows) setAttribute(*body.mutable_node(2), "axis", 0);
  add(body, "Less", {"next", "limit"}, "small");
  add(body, "Less", {"next_n", "most"}, "few");
  add(body, "If", {count_first ? "few" : "small"}, "again");
  auto& choice = *body.mutable_node(body.node_size() - 1);
  auto& yes = subgraph(choice, "then_branch");
  add(yes, "Identity", {count_first ? "small" : "few"}, "both");
  yes.add_output()->set_name("both");
  auto& no = subgraph(choice, "else_branch");
  add(no, "Less", {"one", "one"}, "never");
  no.add_output()->set_name("never");
  for (const char* name : {"again", "next_n", "next", "next_all"}) body.add_output()->set_name(name);
  return b;
}

TEST_F(ControlFlow, LoopEndsByDataOrByWhatItCounts) {
  for (bool count_first : {true, false}) {
    const ModelBuilder b = countedLoop(5, count_first, false);
    EXPECT_THAT(run(b, {bytesOf<float>({3}), bytesOf<float>({20})}), ElementsAre(24));
    EXPECT_THAT(run(b, {bytesOf<float>({3}), bytesOf<float>({2})}), ElementsAre(3));
    EXPECT_THAT(run(b, {bytesOf<float>({1}), bytesOf<float>({1e9F})}), ElementsAre(32));
  }
}

// A condition joined by And, as other exporters write it, is known if one side is false.
TEST_F(ControlFlow, AndOfAKnownNoIsKnown) {
  ModelBuilder b = countedLoop(5, true, false);
  auto& body = *b.model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_g();
  auto& choice = *body.mutable_node(body.node_size() - 1);
  choice.Clear();
  choice.set_op_type("And");
  for (const char* name : {"small", "few"}) choice.add_input(name);
  choice.add_output("again");
  EXPECT_THAT(run(b, {bytesOf<float>({3}), bytesOf<float>({20})}), ElementsAre(24));
  EXPECT_THAT(run(b, {bytesOf<float>({1}), bytesOf<float>({1e9F})}), ElementsAre(32));
}

TEST_F(ControlFlow, LoopThatDataEndCollectsAsMuchAsItMade) {
  const ModelBuilder b = countedLoop(4, true, true);
  EXPECT_THAT(run(b, {bytesOf<float>({3}), bytesOf<float>({20})}), ElementsAre(3, 6, 12, 24));
  EXPECT_THAT(run(b, {bytesOf<float>({3}), bytesOf<float>({2})}), ElementsAre(3));
  EXPECT_THAT(run(b, {bytesOf<float>({1}), bytesOf<float>({1e9F})}), ElementsAre(1, 2, 4, 8, 16));
}

TEST_F(ControlFlow, LoopThatDataAloneEndRunsUntilTheyDo) {
  ModelBuilder endless = doublingLoop();
  endless.model.mutable_graph()->mutable_node(1)->set_input(0, "");
  EXPECT_THAT(run(endless, {bytesOf<float>({1}), bytesOf<float>({1e9F})}), ElementsAre(1 << 30));
  const ModelBuilder counted = countedLoop(100'000, true, false);
  EXPECT_THAT(run(counted, {bytesOf<float>({1}), bytesOf<float>({1e9F})}), ElementsAre(1 << 30));
}

// The number of rows has no bound: the counter must be part of the condition, and small.
TEST_F(ControlFlow, LoopThatDataAloneEndCannotCollect) {
  const ModelBuilder b = countedLoop(100'000, true, true);
  const v1::Failure failure = failureOf(importBytes(context, b.model.SerializeAsString()).status());
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(failure.found(), "a run-time value");
  EXPECT_THAT(failure.accepted(), testing::HasSubstr("counted in the condition"));
}

int loopsOf(const ImportedModel& model) {
  int loops = 0;
  mlir::ModuleOp(*model.module).walk([&](LoopOp) { ++loops; });
  return loops;
}

/// state = state * factor + i, for `trips` iterations, which are stacked; `grows`: the state doubles in length each
/// time.
ModelBuilder affineLoop(int64_t trips, bool grows = false) {
  ModelBuilder b(16);
  b.input("x", {2}).input("factor", {2}).output("rows");
  b.initializer("trips", {trips});
  auto& node = b.node("Loop", {"trips", "", "x"}, {"last", "rows"});
  auto& body = subgraph(node, "body");
  for (const char* name : {"i", "go", "v"}) body.add_input()->set_name(name);
  add(body, "CastLike", {"i", "v"}, "number");
  add(body, "Mul", {"v", "factor"}, "scaled");
  add(body, "Add", {"scaled", "number"}, "sum");
  add(body, "Concat", {"sum", "sum"}, "twice");
  setAttribute(*body.mutable_node(3), "axis", 0);
  add(body, "ReduceSum", {"sum"}, "row");
  for (const char* name : {"go", grows ? "twice" : "sum", grows ? "row" : "sum"}) body.add_output()->set_name(name);
  return b;
}

TEST_F(ControlFlow, LoopOfManyIterationsStaysOne) {
  for (const int64_t trips : {16, 17, 100}) {
    const ModelBuilder b = affineLoop(trips);
    auto imported = importBytes(context, b.model.SerializeAsString());
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(loopsOf(*imported), trips > 16 ? 1 : 0);
    EXPECT_EQ(imported->outputs[0].shape(0), trips);
    std::vector<float> expected;
    float state[] = {1, -2};
    const float factors[] = {0.5F, -0.25F};
    for (int64_t i = 0; i < trips; ++i)
      for (int k : {0, 1}) expected.push_back(state[k] = state[k] * factors[k] + static_cast<float>(i));
    EXPECT_EQ(run(b, {bytesOf<float>({1, -2}), bytesOf<float>({0.5F, -0.25F})}), expected);
  }
}

TEST_F(ControlFlow, LoopThatChangesShapesIsWrittenOut) {
  auto imported = importBytes(context, affineLoop(17, true).model.SerializeAsString());
  EXPECT_FALSE(imported.ok());  // 2 and 4 elements do not go with two factors
  ModelBuilder b(16);
  b.input("x", {1}).output("y");
  b.initializer("trips", {17});
  auto& node = b.node("Loop", {"trips", "", "x"}, {"y"});
  auto& body = subgraph(node, "body");
  for (const char* name : {"i", "go", "v"}) body.add_input()->set_name(name);
  add(body, "Concat", {"v", "v"}, "twice");
  setAttribute(*body.mutable_node(0), "axis", 0);
  for (const char* name : {"go", "twice"}) body.add_output()->set_name(name);
  imported = importBytes(context, b.model.SerializeAsString());
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(loopsOf(*imported), 0);
  EXPECT_EQ(imported->outputs[0].shape(0), 1 << 17);
}

// The results of a loop over constants may decide shapes.
TEST_F(ControlFlow, LoopOverConstantsIsComputedNow) {
  ModelBuilder b(16);
  b.input("x", {40, 2}).output("y");
  b.initializer("trips", {20});
  b.initializer("two", {2});
  b.node("Loop", {"trips", "", "two"}, {"rows"});
  auto& node = *b.model.mutable_graph()->mutable_node(0);
  auto& body = subgraph(node, "body");
  for (const char* name : {"i", "go", "n"}) body.add_input()->set_name(name);
  add(body, "Add", {"n", "two"}, "next");
  for (const char* name : {"go", "next"}) body.add_output()->set_name(name);
  b.node("ConstantOfShape", {"rows"}, {"zeros"});
  b.node("ReduceSum", {"zeros"}, {"sum"});
  b.node("Add", {"x", "sum"}, {"y"});
  auto imported = importBytes(context, b.model.SerializeAsString());
  ASSERT_TRUE(imported.ok()) << imported.status();
}

TEST_F(ControlFlow, ScanRunsBackwards) {
  ModelBuilder b;
  b.input("s", {1}).input("x", {3, 1}).output("last").output("sums");
  auto& node = b.node("Scan", {"s", "x"}, {"last", "sums"});
  setAttribute(node, "num_scan_inputs", 1);
  setAttribute(node, "scan_input_directions", std::vector<int64_t>{1});
  auto& body = subgraph(node, "body");
  for (const char* name : {"sum", "element"}) body.add_input()->set_name(name);
  add(body, "Sub", {"element", "sum"}, "next");
  add(body, "Identity", {"next"}, "row");
  for (const char* name : {"next", "row"}) body.add_output()->set_name(name);
  // 3 - 0 = 3, 2 - 3 = -1, 1 - -1 = 2
  EXPECT_THAT(run(b, {bytesOf<float>({0}), bytesOf<float>({1, 2, 3})}), ElementsAre(2));
}

TEST_F(ControlFlow, ScatterStaysInItsTensor) {
  ModelBuilder b(16);
  b.input("x", {3}).input("i", {4}, onnx::TensorProto::INT64).input("u", {4}).output("y");
  auto& node = b.node("ScatterElements", {"x", "i", "u"}, {"y"});
  setAttribute(node, "reduction", std::string("add"));
  const std::string x = bytesOf<float>({0, 10, 20}), updates = bytesOf<float>({1, 2, 4, 8});
  EXPECT_THAT(run(b, {x, bytesOf<int64_t>({1, 1, -1, 0}), updates}), ElementsAre(8, 13, 24));
  EXPECT_THAT(run(b, {x, bytesOf<int64_t>({INT64_MIN, 1, INT64_MAX, 3}), updates}), ElementsAre(1, 12, 32));
}

}  // namespace
}  // namespace tessera::compiler
