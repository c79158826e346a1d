#include "compiler/import/import.h"

#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Import : public testing::Test {
 protected:
  absl::StatusOr<ImportedModel> import(const ModelBuilder& builder, const ImportOptions& options = {}) {
    return importBytes(context, builder.model.SerializeAsString(), options);
  }
  v1::Failure failure(const ModelBuilder& builder, const ImportOptions& options = {}) {
    auto imported = import(builder, options);
    return imported.ok() ? v1::Failure() : failureOf(imported.status());
  }
  /// Returns the first output for the given inputs.
  template <typename T>
  std::vector<T> run(const ModelBuilder& builder, const std::vector<std::string>& inputs,
                     const ImportOptions& options = {}) {
    auto imported = import(builder, options);
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return {};
    auto results = referenceRun(*std::move(imported), inputs);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? valuesOf<T>(results->front()) : std::vector<T>{};
  }
  template <typename Op>
  int count(ImportedModel& model) {
    int found = 0;
    model.module->walk([&](Op) { ++found; });
    return found;
  }

  mlir::MLIRContext context;
};

// Pruned weights may be stored as sparse tensors: row-major positions, or coordinates.
TEST_F(Import, SparseInitializersAreMadeDense) {
  for (const bool by_coordinate : {false, true}) {
    ModelBuilder b;
    b.input("x", {2, 3}).output("y");
    auto& sparse = *b.graph().add_sparse_initializer();
    for (const int64_t dim : {2, 3}) sparse.add_dims(dim);
    auto &values = *sparse.mutable_values(), &indices = *sparse.mutable_indices();
    values.set_name("w");
    values.set_data_type(onnx::TensorProto::FLOAT);
    values.add_dims(2);
    values.add_float_data(10);
    values.add_float_data(20);
    indices.set_data_type(onnx::TensorProto::INT64);
    indices.add_dims(2);
    if (by_coordinate) indices.add_dims(2);
    for (const int64_t number : by_coordinate ? std::vector<int64_t>{0, 1, 1, 2} : std::vector<int64_t>{1, 5})
      indices.add_int64_data(number);
    b.node("Add", {"x", "w"}, {"y"});
    EXPECT_THAT(run<float>(b, {bytesOf<float>({1, 2, 3, 4, 5, 6})}), ElementsAre(1, 12, 3, 4, 5, 26));
  }
}

TEST_F(Import, NamesInputsWeightsAndOutputs) {
  ModelBuilder b;
  b.input("x", {1, 512}).output("y");
  b.initializer("w", {512, 4}, std::vector<float>(2048, 0.5F));
  b.initializer("bias", {4}, {1, 2, 3, 4});
  b.node("MatMul", {"x", "w"}, {"p"}, "fc");
  b.node("Add", {"p", "bias"}, {"y"}, "add");
  auto model = import(b);
  ASSERT_TRUE(model.ok()) << model.status();
  auto main = *model->module->getOps<mlir::func::FuncOp>().begin();
  EXPECT_EQ(main.getName(), "main");
  ASSERT_EQ(main.getNumArguments(), 2U);  // the bias is small: a constant of the module
  EXPECT_EQ(main.getArgAttrOfType<mlir::StringAttr>(0, "tessera.input").getValue(), "x");
  EXPECT_EQ(main.getArgAttrOfType<mlir::IntegerAttr>(1, "tessera.weight").getInt(), 0);
  EXPECT_EQ(main.getResultAttrOfType<mlir::StringAttr>(0, "tessera.output").getValue(), "y");
  ASSERT_EQ(model->weights.size(), 1U);
  EXPECT_EQ(model->weights[0].bytes.size(), 8192U);
  EXPECT_NE(model->weights[0].owner, nullptr);
  EXPECT_EQ(model->nodes, 2);
  std::string location;
  model->module->walk(
      [&](mlir::linalg::MatmulOp op) { location = llvm::cast<mlir::NameLoc>(op->getLoc()).getName().str(); });
  EXPECT_EQ(location, "fc");
}

TEST_F(Import, BindsSymbolicDimensions) {
  ModelBuilder b;
  b.input("x", {-1, 3}).input("z", {-1, 3}).output("y");
  b.node("Add", {"x", "z"}, {"y"});
  const v1::Failure unbound = failure(b);
  EXPECT_EQ(unbound.reason(), v1::Failure::UNBOUND_DIMENSION);
  EXPECT_EQ(unbound.attribute(), "x");
  EXPECT_THAT(unbound.message(), testing::HasSubstr("input 'x' has the unbound dimension 'N' at position 0"));
  EXPECT_EQ(unbound.fix(), "bind it: --dim N=1 (several sizes, as in --dim N=1,4, become variants), or --shape x=1x3");
  // One binding serves every input with the same symbol.
  auto model = import(b, {.input_shapes = {{"x", {5, 3}}}, .external_data = {}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs[1].shape(0), 5);
  EXPECT_EQ(failure(b, {.input_shapes = {{"x", {5, 4}}}, .external_data = {}}).reason(), v1::Failure::INVALID_INPUT);
  EXPECT_EQ(failure(b, {.input_shapes = {{"q", {5}}}, .external_data = {}}).reason(), v1::Failure::INVALID_INPUT);
  EXPECT_EQ(failure(b, {.input_shapes = {{"x", {5, 3}}, {"z", {6, 3}}}, .external_data = {}}).found(), "6");
}

TEST_F(Import, BindsDimensionsByName) {
  ModelBuilder b;
  b.input("x", {-1, 3}).input("z", {-1, 3}).output("y");
  b.node("Add", {"x", "z"}, {"y"});
  const auto bound = [](int64_t n) {
    ImportOptions options;
    options.dimensions["N"] = n;
    return options;
  };
  auto model = import(b, bound(4));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs[0].shape(0), 4);
  EXPECT_EQ(model->inputs[1].shape(0), 4);
  ASSERT_EQ(model->dimensions.size(), 1U);
  EXPECT_EQ(model->dimensions[0].name(), "N");
  EXPECT_EQ(model->dimensions[0].size(), 4);

  ImportOptions twice = bound(4);
  twice.input_shapes["z"] = {5, 3};
  const v1::Failure contradiction = failure(b, twice);
  EXPECT_EQ(contradiction.reason(), v1::Failure::INVALID_INPUT);
  EXPECT_THAT(contradiction.message(), testing::HasSubstr("dimension 'N' is given two values"));
  EXPECT_EQ(contradiction.accepted(), "4, as the dimension is bound by name");

  ImportOptions stranger = bound(4);
  stranger.dimensions["batch"] = 1;
  const v1::Failure unknown = failure(b, stranger);
  EXPECT_EQ(unknown.reason(), v1::Failure::INVALID_INPUT);
  EXPECT_EQ(unknown.attribute(), "batch");
  EXPECT_EQ(unknown.accepted(), "N");
}

// Converters from Keras and Paddle write unknown sizes like this.
TEST_F(Import, TakesNegativeSizesForUnknown) {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y");
  b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(-1);
  b.node("Relu", {"x"}, {"y"});
  const v1::Failure unbound = failure(b);
  EXPECT_EQ(unbound.reason(), v1::Failure::UNBOUND_DIMENSION);
  EXPECT_EQ(unbound.found(), "?x3");
  EXPECT_EQ(unbound.fix(), "bind it: --shape x=1x3");
  EXPECT_THAT(run<float>(b, {bytesOf<float>({-1, 2, -3})}, {.input_shapes = {{"x", {1, 3}}}, .external_data = {}}),
              ElementsAre(0, 2, 0));
}

// Paddle's converter names every unknown size "?".
TEST_F(Import, TakesQuestionMarksForSizesThatMayDiffer) {
  ModelBuilder b;
  b.input("x", {-1, -1}).output("y");
  for (auto& dim : *b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
    dim.set_dim_param("?");
  b.node("Relu", {"x"}, {"y"});
  const v1::Failure unbound = failure(b);
  EXPECT_EQ(unbound.reason(), v1::Failure::UNBOUND_DIMENSION);
  EXPECT_EQ(unbound.found(), "?x?");
  EXPECT_EQ(unbound.fix(), "bind it: --shape x=1x1");
  EXPECT_THAT(run<float>(b, {bytesOf<float>({-1, 2, -3})}, {.input_shapes = {{"x", {1, 3}}}, .external_data = {}}),
              ElementsAre(0, 2, 0));
}

TEST_F(Import, KnowsTheVersionOfADomainThatIsNotImported) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  b.node("QuickGelu", {"x"}, {"y"}, "gelu").set_domain("com.microsoft");
  EXPECT_THAT(run<float>(b, {bytesOf<float>({0, 100})}), ElementsAre(0, 100));
  b.graph().mutable_node(0)->set_domain("own");
  EXPECT_THAT(failure(b).found(), HasSubstr("of the domain 'own' (not in opset_import)"));
}

TEST_F(Import, ReadsAnOperatorSetThatIsNamedTwice) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  b.node("Relu", {"x"}, {"y"});
  auto* again = b.model.add_opset_import();
  again->set_domain("ai.onnx");
  again->set_version(13);
  EXPECT_THAT(run<float>(b, {bytesOf<float>({-1, 2})}), ElementsAre(0, 2));
  again->set_version(14);
  EXPECT_EQ(failure(b).attribute(), "opset_import");
  EXPECT_EQ(failure(b).found(), "13 and 14");
}

TEST_F(Import, FoldsShapeArithmetic) {
  // The exporters' pattern for x.reshape(x.shape[0], -1).
  ModelBuilder b;
  b.input("x", {2, 3, 4}).output("y");
  b.initializer("zero", {0});
  b.initializer("rest", {-1});
  b.node("Shape", {"x"}, {"shape"});
  b.node("Gather", {"shape", "zero"}, {"batch"});
  b.node("Concat", {"batch", "rest"}, {"target"});
  setAttribute(*b.graph().mutable_node(2), "axis", int64_t{0});
  b.node("Reshape", {"x", "target"}, {"y"});
  auto model = import(b);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(2, 12));
  EXPECT_EQ(count<mlir::linalg::GenericOp>(*model), 0);
}

/// A value with known elements decides a shape, for any operators: y = x expanded to the result of `node`.
class KnownShapes : public Import, public testing::WithParamInterface<std::pair<const char*, int64_t>> {};

TEST_P(KnownShapes, AreComputedAtImport) {
  const auto& [op, elements] = GetParam();
  ModelBuilder b(18);
  b.input("x", {1}).output("y");
  b.initializer("list", {2, 3, 5});
  b.initializer("table", {3, 1}).mutable_dims()->Add(1);
  b.initializer("two", {2});
  b.initializer("one", {1});
  b.initializer("zero", {0});
  const std::string name = op;
  if (name == "TopK") {
    b.node(op, {"list", "two"}, {"shape", "places"});  // 5, 3
  } else if (name == "ScatterElements") {
    b.node(op, {"list", "zero", "one"}, {"shape"});  // 1, 3, 5
  } else if (name == "Unique") {
    b.node(op, {"table"}, {"shape"});  // 1, 3
  } else if (name == "NonZero") {
    b.node("Equal", {"list", "list"}, {"same"});
    b.node(op, {"same"}, {"places"});  // [[0, 1, 2]]
    b.node("Squeeze", {"places", "zero"}, {"from"});
    b.node("Add", {"from", "one"}, {"shape"});  // 1, 2, 3
  } else if (name == "MatMul") {
    b.node("Transpose", {"table"}, {"row"});
    b.node(op, {"table", "row"}, {"product"});
    b.node("Flatten", {"product"}, {"flat"});  // 9, 3, 3, 1
    b.node("Reshape", {"flat", "minus"}, {"shape"});
    b.initializer("minus", {-1});
  } else if (name == "CumSum") {
    b.node(op, {"list", "zero"}, {"shape"});  // 2, 5, 10
  } else if (name == "SequenceAt") {
    b.node("SequenceConstruct", {"two", "list"}, {"sequence"});
    b.node(op, {"sequence", "one"}, {"shape"});  // 2, 3, 5
  }
  b.node("Expand", {"x", "shape"}, {"y"});
  EXPECT_EQ(run<float>(b, {bytesOf<float>({1})}).size(), static_cast<size_t>(elements));
}

INSTANTIATE_TEST_SUITE_P(Operators, KnownShapes,
                         testing::Values(std::pair("TopK", 15), std::pair("ScatterElements", 15),
                                         std::pair("Unique", 3), std::pair("NonZero", 6), std::pair("MatMul", 81),
                                         std::pair("CumSum", 100), std::pair("SequenceAt", 30)),
                         [](const auto& test) { return std::string(test.param.first); });

TEST_F(Import, AcceptsUnsortedNodes) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  b.node("Neg", {"a"}, {"y"});
  b.node("Abs", {"x"}, {"a"});
  EXPECT_THAT(run<float>(b, {bytesOf<float>({-1, 2})}), ElementsAre(-1, -2));
}

TEST_F(Import, GathersInsideItsBuffersWhateverTheIndices) {
  ModelBuilder b;
  b.input("x", {4}).input("i", {6}, onnx::TensorProto::INT64).output("y");
  b.node("Gather", {"x", "i"}, {"y"});
  const std::vector<int64_t> indices = {0, -1, 4, -5, INT64_MAX, INT64_MIN};
  EXPECT_THAT(run<float>(b, {bytesOf<float>({10, 11, 12, 13}), bytesOf(indices)}), ElementsAre(10, 13, 13, 10, 13, 10));
}

TEST_F(Import, DividesIntegersWithoutTrapping) {
  ModelBuilder b;
  b.input("x", {5}, onnx::TensorProto::INT32).input("z", {5}, onnx::TensorProto::INT32).output("y");
  b.node("Div", {"x", "z"}, {"y"});
  const std::vector<int32_t> x = {7, -7, 7, INT32_MIN, INT32_MIN}, z = {2, 2, 0, -1, 0};
  EXPECT_THAT(run<int32_t>(b, {bytesOf(x), bytesOf(z)}), ElementsAre(3, -3, 0, INT32_MIN, 0));
  b.graph().mutable_node(0)->set_op_type("Mod");
  EXPECT_THAT(run<int32_t>(b, {bytesOf(x), bytesOf(z)}), ElementsAre(1, 1, 0, 0, 0));
}

TEST_F(Import, CastsOutOfRangeValuesToTheNearest) {
  ModelBuilder b;
  b.input("x", {5}).output("y");
  setAttribute(b.node("Cast", {"x"}, {"y"}), "to", int64_t{onnx::TensorProto::INT32});
  EXPECT_THAT(run<int32_t>(b, {bytesOf<float>({1.9F, -1.9F, 3e9F, -3e9F, NAN})}),
              ElementsAre(1, -1, INT32_MAX, INT32_MIN, 0));
}

TEST_F(Import, PassesBooleansAsBytes) {
  ModelBuilder b;
  b.input("x", {3}, onnx::TensorProto::BOOL).output("y");
  b.node("Not", {"x"}, {"y"});
  auto model = import(b);
  ASSERT_TRUE(model.ok()) << model.status();
  auto main = *model->module->getOps<mlir::func::FuncOp>().begin();
  EXPECT_TRUE(llvm::cast<mlir::RankedTensorType>(main.getArgumentTypes()[0]).getElementType().isInteger(8));
  EXPECT_EQ(model->outputs[0].dtype(), v1::DATA_TYPE_BOOL);
  EXPECT_THAT(run<uint8_t>(b, {bytesOf<uint8_t>({0, 1, 255})}), ElementsAre(1, 0, 0));
}

TEST_F(Import, ReadsTransposedGemmOperandsInPlace) {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y");
  b.initializer("w", {200, 3}, std::vector<float>(600, 2.0F));
  setAttribute(b.node("Gemm", {"x", "w"}, {"y"}), "transB", int64_t{1});
  auto model = import(b);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(count<mlir::linalg::TransposeOp>(*model), 0);
  EXPECT_EQ(run<float>(b, {bytesOf<float>({1, 2, 3, 4, 5, 6})})[399], 30.0F);
}

TEST_F(Import, InlinesModelLocalFunctions) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  b.model.add_opset_import()->set_domain("own");
  auto* function = b.model.add_functions();
  function->set_name("Leak");
  function->set_domain("own");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("slope");
  function->add_opset_import()->set_version(13);
  auto* body = function->add_node();
  body->set_op_type("LeakyRelu");
  body->add_input("a");
  body->add_output("b");
  auto* reference = body->add_attribute();
  reference->set_name("alpha");
  reference->set_ref_attr_name("slope");
  reference->set_type(onnx::AttributeProto::FLOAT);
  auto& call = b.node("Leak", {"x"}, {"y"});
  call.set_domain("own");
  auto* slope = call.add_attribute();
  slope->set_name("slope");
  slope->set_type(onnx::AttributeProto::FLOAT);
  slope->set_f(0.5F);
  EXPECT_THAT(run<float>(b, {bytesOf<float>({-4, 4})}), ElementsAre(-2, 4));
}

struct BadNode {
  const char* what;
  void (*build)(ModelBuilder& b);
  const char* attribute;
  const char* message;
};

class BadNodes : public Import, public testing::WithParamInterface<BadNode> {};

TEST_P(BadNodes, IsRefusedByName) {
  ModelBuilder b;
  b.input("x", {1, 4, 8, 8}).output("y");
  GetParam().build(b);
  const v1::Failure result = failure(b);
  EXPECT_EQ(result.node(), "bad") << result.message();
  EXPECT_EQ(result.attribute(), GetParam().attribute);
  EXPECT_THAT(result.message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Attributes, BadNodes,
    testing::Values(
        BadNode{"UnknownAttribute",
                [](ModelBuilder& b) { setAttribute(b.node("Relu", {"x"}, {"y"}, "bad"), "colour", int64_t{1}); },
                "colour", "unknown attribute 'colour'"},
        BadNode{"WrongAttributeType",
                [](ModelBuilder& b) { setAttribute(b.node("Softmax", {"x"}, {"y"}, "bad"), "axis", "one"); }, "axis",
                "is STRING where INT is expected"},
        BadNode{"AxisOutOfRange",
                [](ModelBuilder& b) { setAttribute(b.node("Softmax", {"x"}, {"y"}, "bad"), "axis", int64_t{4}); },
                "axis", "axis is 4 for a tensor of rank 4"},
        BadNode{"MissingAttribute", [](ModelBuilder& b) { b.node("MaxPool", {"x"}, {"y"}, "bad"); }, "kernel_shape",
                "is missing"},
        BadNode{"UnknownPadding",
                [](ModelBuilder& b) {
                  b.initializer("w", {4, 2, 1, 1}, std::vector<float>(8, 1.0F));
                  setAttribute(b.node("ConvTranspose", {"x", "w"}, {"y"}, "bad"), "auto_pad", "SAME");
                },
                "auto_pad", "unknown auto_pad"},
        BadNode{"BadGroups",
                [](ModelBuilder& b) {
                  b.initializer("w", {4, 2, 1, 1}, std::vector<float>(8, 1.0F));
                  setAttribute(b.node("Conv", {"x", "w"}, {"y"}, "bad"), "group", int64_t{3});
                },
                "group", "3 groups do not fit"},
        BadNode{"WindowTooLarge",
                [](ModelBuilder& b) {
                  setAttribute(b.node("MaxPool", {"x"}, {"y"}, "bad"), "kernel_shape", std::vector<int64_t>{9, 9});
                },
                "kernel_shape", "larger than spatial dimension 0, which is 8 long"},
        BadNode{"ZeroStride",
                [](ModelBuilder& b) {
                  auto& node = b.node("MaxPool", {"x"}, {"y"}, "bad");
                  setAttribute(node, "kernel_shape", std::vector<int64_t>{2, 2});
                  setAttribute(node, "strides", std::vector<int64_t>{0, 1});
                },
                "strides", "does not fit the input"},
        BadNode{"ShapeAtRunTime",
                [](ModelBuilder& b) {
                  b.input("s", {2}, onnx::TensorProto::INT64);
                  b.node("Reshape", {"x", "s"}, {"y"}, "bad");
                },
                "shape", "computed at run time"},
        BadNode{"MixedTypes",
                [](ModelBuilder& b) {
                  b.input("i", {8}, onnx::TensorProto::INT64);
                  b.node("Add", {"x", "i"}, {"y"}, "bad");
                },
                "input 1", "input 1 is i64, but input 0 is f32"},
        BadNode{"WrongElementCount",
                [](ModelBuilder& b) {
                  b.initializer("s", {3, 5});
                  b.node("Reshape", {"x", "s"}, {"y"}, "bad");
                },
                "shape", "cannot reshape 1x4x8x8 to 3x5"}),
    [](const testing::TestParamInfo<BadNode>& info) { return info.param.what; });

}  // namespace
}  // namespace tessera::compiler
