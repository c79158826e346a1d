#include "compiler/verification/graph_check.h"

#include "compiler/graph/analysis/element_type.h"
#include "compiler/interpreter/random_array.h"
#include "gmock/gmock.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::verification {
namespace {

using ::testing::HasSubstr;

/// Modules written by hand before and after a step, as a correct or a faulty rewrite would produce them.
class GraphCheckTest : public ::testing::Test {
 protected:
  GraphCheckTest() : context_(mlir::MLIRContext::Threading::DISABLED) {
    context_.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                         mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
    context_.allowUnregisteredDialects();  // loops of the model
  }

  ImportedModel parse(const std::string& text) {
    ImportedModel model;
    model.module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    EXPECT_TRUE(model.module) << text;
    auto main = model.module->lookupSymbol<mlir::func::FuncOp>("main");
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      v1::TensorSpec spec = specOf("x" + std::to_string(i), main.getArgumentTypes()[i]);
      auto weight = main.getArgAttrOfType<mlir::IntegerAttr>(i, "tessera.weight");
      if (!weight) {
        model.inputs.push_back(spec);
        continue;
      }
      const llvm::SmallVector<int64_t> shape(spec.shape().begin(), spec.shape().end());
      auto bytes = std::make_shared<std::string>(interpreter::toBytes(
          interpreter::randomArray(elementOf(spec), shape, {static_cast<uint64_t>(weight.getInt())})));
      model.weights.push_back({spec, *bytes, bytes});
    }
    for (unsigned i = 0; i < main.getNumResults(); ++i) {
      model.outputs.push_back(specOf("y" + std::to_string(i), main.getResultTypes()[i]));
    }
    return model;
  }

  mlir::MLIRContext context_;
};

/// conv1 = x * w, bias1 = conv1 + b, relu1 = max(bias1, 0), softmax-like exp1 = exp(relu1 - 1).
std::string network(const std::string& bias, const std::string& shift, const std::string& order = "%x, %w") {
  return R"(
  #row = affine_map<(i, j) -> (i, j)>
  #column = affine_map<(i, j) -> (j)>
  func.func @main(%x: tensor<7x7xf32>, %w: tensor<7x7xf32> {tessera.weight = 0 : i64},
                  %b: tensor<7xf32> {tessera.weight = 1 : i64}) -> tensor<7x7xf32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<7x7xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<7x7xf32>) -> tensor<7x7xf32> loc("conv1")
    %0 = linalg.matmul ins()" +
         order + R"( : tensor<7x7xf32>, tensor<7x7xf32>) outs(%f : tensor<7x7xf32>) -> tensor<7x7xf32> loc("conv1")
    %1 = linalg.generic {indexing_maps = [#row, #column, #row], iterator_types = ["parallel", "parallel"]}
        ins(%0, %b : tensor<7x7xf32>, tensor<7xf32>) outs(%e : tensor<7x7xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %r = )" +
         bias + R"( : f32
      linalg.yield %r : f32
    } -> tensor<7x7xf32> loc("bias1")
    %2 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
        ins(%1 : tensor<7x7xf32>) outs(%e : tensor<7x7xf32>) {
    ^bb0(%p: f32, %o: f32):
      %c = arith.constant )" +
         shift + R"( : f32
      %s = arith.subf %p, %c : f32
      %r = math.exp %s : f32
      linalg.yield %r : f32
    } -> tensor<7x7xf32> loc("exp1")
    return %2 : tensor<7x7xf32>
  })";
}

TEST_F(GraphCheckTest, NamesTheStepAndTheNodeOfAWrongRewrite) {
  struct Case {
    const char* what;
    std::string after;
    const char* node;
  };
  const Case cases[] = {
      {"another operator", network("arith.subf %p, %q", "1.0"), "bias1"},
      {"operands exchanged", network("arith.addf %p, %q", "1.0", "%w, %x"), "conv1"},
      {"a constant a thousandth off", network("arith.addf %p, %q", "1.001"), "exp1"},
      {"an operand dropped", network("arith.addf %p, %p", "1.0"), "bias1"},
  };
  for (const Case& each : cases) {
    GraphCheck check;
    const ImportedModel before = parse(network("arith.addf %p, %q", "1.0"));
    ASSERT_TRUE(check.imported(before).ok());
    ASSERT_TRUE(check.rewritten("nothing", before).ok());
    const absl::Status status = check.rewritten("simplify-algebra", parse(each.after));
    ASSERT_FALSE(status.ok()) << each.what;
    const v1::Failure failure = failureOf(status);
    EXPECT_EQ(failure.reason(), v1::Failure::INTERNAL) << each.what;
    EXPECT_EQ(failure.node(), each.node) << each.what << ": " << failure.message();
    EXPECT_THAT(failure.message(), HasSubstr("simplify-algebra changes what the model computes: output 'y0'"));
    EXPECT_THAT(failure.message(), HasSubstr("bound"));
  }
}

TEST_F(GraphCheckTest, LetsRightRewritesPass) {
  GraphCheck check;
  ASSERT_TRUE(check.imported(parse(network("arith.addf %p, %q", "1.0"))).ok());
  // Exchanged operands of a sum, and the same constant in another notation.
  EXPECT_TRUE(check.rewritten("exchange", parse(network("arith.addf %q, %p", "1.0e+00"))).ok());
  ASSERT_EQ(check.steps().size(), 2);
  EXPECT_EQ(check.steps()[0].step(), "import");
  EXPECT_EQ(check.steps()[1].elements(), 49);
  EXPECT_LE(check.steps()[1].share(), 1);
}

/// h = h * w + x[i] for each row of x, where w is a weight that only the body names; then y = h + h.
std::string recurrence(const std::string& update) {
  return R"(
  func.func private @cell(%i: tensor<i64>, %h: tensor<5xf32>, %x: tensor<5xf32>,
                          %w: tensor<5xf32> {tessera.weight = 0 : i64}) -> (tensor<i8>, tensor<5xf32>) {
    %again = arith.constant dense<1> : tensor<i8>
    %e = tensor.empty() : tensor<5xf32>
    %0 = linalg.mul ins(%h, %w : tensor<5xf32>, tensor<5xf32>) outs(%e : tensor<5xf32>) -> tensor<5xf32> loc("mul1")
    %1 = linalg.)" +
         update + R"( ins(%0, %x : tensor<5xf32>, tensor<5xf32>) outs(%e : tensor<5xf32>) -> tensor<5xf32> loc("add1")
    return %again, %1 : tensor<i8>, tensor<5xf32>
  }
  func.func @main(%n: tensor<i64>, %c: tensor<i8>, %h: tensor<5xf32>, %x: tensor<7x5xf32>) -> tensor<5xf32> {
    %e = tensor.empty() : tensor<5xf32>
    %0 = linalg.mul ins(%h, %h : tensor<5xf32>, tensor<5xf32>) outs(%e : tensor<5xf32>) -> tensor<5xf32> loc("square1")
    %r:2 = "tessera.loop"(%n, %c, %0, %x) {body = @cell, trip_count = true, condition = true, carried = 1 : i64,
        most = 7 : i64, scanned = array<i1: true>, stacked = array<i1>}
        : (tensor<i64>, tensor<i8>, tensor<5xf32>, tensor<7x5xf32>) -> (tensor<5xf32>, tensor<i64>) loc("scan1")
    %1 = linalg.add ins(%r#0, %r#0 : tensor<5xf32>, tensor<5xf32>) outs(%e : tensor<5xf32>) -> tensor<5xf32> loc("sum1")
    return %1 : tensor<5xf32>
  })";
}

TEST_F(GraphCheckTest, NamesTheLoopWhoseBodyIsWrong) {
  const auto model = [&](const std::string& update) {
    ImportedModel parsed = parse(recurrence(update));
    v1::TensorSpec spec = specOf("w", parsed.module->lookupSymbol<mlir::func::FuncOp>("cell").getArgumentTypes()[3]);
    auto bytes =
        std::make_shared<std::string>(interpreter::toBytes(interpreter::randomArray(elementOf(spec), {5}, {3})));
    parsed.weights.push_back({spec, *bytes, bytes});
    return parsed;
  };
  // Trip count and condition are inputs: the loop must run with every seed.
  for (const uint64_t seed : {1, 2, 3, 4}) {
    GraphCheck check(seed);
    ASSERT_TRUE(check.imported(model("add")).ok());
    ASSERT_TRUE(check.rewritten("nothing", model("add")).ok());
    for (const v1::VerifiedStep& step : check.steps()) EXPECT_EQ(step.skipped(), "");
    const v1::Failure failure = failureOf(check.rewritten("simplify-algebra", model("sub")));
    EXPECT_EQ(failure.node(), "scan1") << failure.message();
    ImportedModel broken = model("add");
    broken.weights.clear();
    EXPECT_THAT(std::string(check.rewritten("fold-constants", broken).message()), HasSubstr("no weight 0"));
  }
}

TEST_F(GraphCheckTest, AccessOutsideOfATensorIsTheRewritesFault) {
  const auto text = [](int offset) {
    return R"(func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
      %c = arith.constant )" +
           std::to_string(offset) + R"( : index
      %0 = tensor.extract_slice %x[%c] [4] [1] : tensor<8xf32> to tensor<4xf32> loc("slice1")
      return %0 : tensor<4xf32> })";
  };
  GraphCheck check;
  ASSERT_TRUE(check.imported(parse(text(4))).ok());
  const absl::Status status = check.rewritten("simplify-movement", parse(text(5)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("after simplify-movement the model cannot be run"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("slice1"));
}

TEST_F(GraphCheckTest, SaysWhatItSkipped) {
  GraphCheck check(1, {.step = 100, .model = 1000});
  const ImportedModel model = parse(network("arith.addf %p, %q", "1.0"));
  ASSERT_TRUE(check.imported(model).ok());
  ASSERT_TRUE(check.rewritten("anything", model).ok());
  ASSERT_EQ(check.steps().size(), 2);
  EXPECT_THAT(check.steps()[0].skipped(), HasSubstr("takes more than the 100 operations"));
  EXPECT_THAT(check.steps()[1].skipped(), HasSubstr("not interpreted"));
}

/// Two steps, c = a - b and d = c * c; the buffers of the first step are parameters.
PlannedGraph plan(int first, int second, int64_t arena_offset) {
  PlannedGraph planned;
  v1::Plan& plan = planned.plan;
  const std::string type = "tensor<5xf32>";
  for (const auto& [name, op] : {std::pair("difference", "sub"), std::pair("square", "mul")}) {
    v1::Workload& workload = *plan.add_workloads();
    workload.set_summary(name);
    workload.set_ir("func.func @w(%a: " + type + ", %b: " + type + ") -> " + type +
                    " {\n%e = tensor.empty() : " + type + "\n%0 = linalg." + op + " ins(%a, %b : " + type + ", " +
                    type + ") outs(%e : " + type + ") -> " + type + "\nreturn %0 : " + type + "\n}");
  }
  for (const v1::Buffer::Kind kind : {v1::Buffer::INPUT, v1::Buffer::INPUT, v1::Buffer::ARENA, v1::Buffer::OUTPUT}) {
    v1::Buffer& buffer = *plan.add_buffers();
    buffer.set_kind(kind);
    buffer.set_index(kind == v1::Buffer::INPUT ? plan.buffers_size() - 1 : 0);
    buffer.set_size_bytes(20);
  }
  plan.mutable_buffers(2)->set_offset(arena_offset);
  plan.set_arena_bytes(128);
  v1::TensorSpec spec;
  spec.set_dtype(v1::DATA_TYPE_F32);
  spec.add_shape(5);
  *plan.add_outputs() = spec;
  v1::Step& difference = *plan.add_steps();
  difference.set_name("sub1");
  for (int operand : {first, second, 2}) difference.add_operands(operand);
  v1::Step& square = *plan.add_steps();
  square.set_name("mul1");
  square.set_workload(1);
  for (int operand : {2, 2, 3}) square.add_operands(operand);
  return planned;
}

TEST_F(GraphCheckTest, NamesTheStepOfAWrongPlan) {
  const std::string text = R"(func.func @main(%a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
      %e = tensor.empty() : tensor<5xf32>
      %0 = linalg.sub ins(%a, %b : tensor<5xf32>, tensor<5xf32>) outs(%e : tensor<5xf32>) -> tensor<5xf32> loc("sub1")
      %1 = linalg.mul ins(%0, %0 : tensor<5xf32>, tensor<5xf32>) outs(%e : tensor<5xf32>) -> tensor<5xf32> loc("mul1")
      return %1 : tensor<5xf32> })";
  const auto verdict = [&](const PlannedGraph& planned) {
    GraphCheck check;
    EXPECT_TRUE(check.imported(parse(text)).ok());
    return check.planned(planned);
  };
  EXPECT_TRUE(verdict(plan(0, 1, 64)).ok()) << verdict(plan(0, 1, 64));
  const absl::Status wrong = verdict(plan(0, 0, 64));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("plan changes what the model computes"));
  const absl::Status outside = verdict(plan(0, 1, 128));
  EXPECT_THAT(std::string(outside.message()), HasSubstr("buffer out of its section"));
  EXPECT_THAT(std::string(outside.message()), HasSubstr("sub1"));
  PlannedGraph unwritten = plan(0, 1, 64);
  unwritten.plan.mutable_steps()->SwapElements(0, 1);  // reads a buffer that no step has written yet
  EXPECT_FALSE(verdict(unwritten).ok());
}

}  // namespace
}  // namespace tessera::compiler::verification
