// Invalid estimators are refused with the place and the remedy.
#include <limits>

#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

using testing::HasSubstr;

void setFloats(onnx::NodeProto& node, const std::string& name, const std::vector<float>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOATS);
  for (const float value : values) attribute.add_floats(value);
}

void setTexts(onnx::NodeProto& node, const std::string& name, const std::vector<std::string>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
}

/// One branch of three nodes: x0 <= 0.5 ? node 1 : node 2.
struct Stump {
  int64_t feature = 0, when_true = 1, target = 0, version = 3;
  float weight = 1;
  std::vector<std::string> modes = {"BRANCH_LEQ", "LEAF", "LEAF"};
  std::vector<std::string> string_labels = {};
};

absl::Status imported(const Stump& stump) {
  ModelBuilder b(17);
  auto& domain = *b.model.add_opset_import();
  domain.set_domain("ai.onnx.ml");
  domain.set_version(stump.version);
  b.input("x", {5, 2}).output("label").output("scores");
  auto& node = b.node("TreeEnsembleClassifier", {"x"}, {"label", "scores"});
  node.set_domain("ai.onnx.ml");
  using Integers = std::vector<int64_t>;
  setAttribute(node, "nodes_treeids", Integers{0, 0, 0});
  setAttribute(node, "nodes_nodeids", Integers{0, 1, 2});
  setAttribute(node, "nodes_featureids", Integers{stump.feature, 0, 0});
  setAttribute(node, "nodes_truenodeids", Integers{stump.when_true, 0, 0});
  setAttribute(node, "nodes_falsenodeids", Integers{2, 0, 0});
  setFloats(node, "nodes_values", {0.5, 0, 0});
  setTexts(node, "nodes_modes", stump.modes);
  setAttribute(node, "class_treeids", Integers{0, 0});
  setAttribute(node, "class_nodeids", Integers{1, 2});
  setAttribute(node, "class_ids", Integers{stump.target, 1});
  setFloats(node, "class_weights", {stump.weight, 1});
  if (stump.string_labels.empty()) setAttribute(node, "classlabels_int64s", Integers{3, 4});
  if (!stump.string_labels.empty()) setTexts(node, "classlabels_strings", stump.string_labels);
  mlir::MLIRContext context;
  return importBytes(context, b.model.SerializeAsString()).status();
}

TEST(TreeEnsemble, AStumpIsTaken) { EXPECT_TRUE(imported({}).ok()) << imported({}); }

TEST(TreeEnsemble, WhatIsWrongIsNamed) {
  const auto message = [](const Stump& stump) { return std::string(imported(stump).message()); };
  EXPECT_THAT(message({.feature = 2}), HasSubstr("reads feature 2 of 2"));
  EXPECT_THAT(message({.feature = -1}), HasSubstr("reads feature -1"));
  EXPECT_THAT(message({.when_true = 7}), HasSubstr("node 0 of tree 0 leads to a node that does not exist"));
  EXPECT_THAT(message({.when_true = 0}), HasSubstr("branch 0 is reached twice"));
  EXPECT_THAT(message({.target = 2}), HasSubstr("weight 0 has no place"));
  EXPECT_THAT(message({.weight = std::numeric_limits<float>::quiet_NaN()}), HasSubstr("not a number"));
  EXPECT_THAT(message({.modes = {"BRANCH_MEMBER", "LEAF", "LEAF"}}), HasSubstr("'BRANCH_MEMBER'"));
  EXPECT_THAT(message({.modes = {"LEAF"}}), HasSubstr("attribute 'nodes_modes' has 1 elements"));
}

TEST(TreeEnsemble, StringsAreRefusedByName) {
  EXPECT_THAT(std::string(imported({.string_labels = {"cat", "dog"}}).message()), HasSubstr("labels that are strings"));
}

TEST(TreeEnsemble, ANewerOperatorSetIsRefused) {
  EXPECT_THAT(std::string(imported({.version = 99}).message()), HasSubstr("version 99 of ai.onnx.ml"));
}

}  // namespace
}  // namespace tessera::compiler
