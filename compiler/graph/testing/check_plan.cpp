// Plans an ONNX model, runs model and plan on plain loops, prints the plan and the largest difference.
// A development tool: tests/run uses it to prove plans of real networks independently of code generation.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "CLI/CLI.hpp"
#include "compiler/graph/testing/plan_executor.h"
#include "compiler/import/import.h"
#include "compiler/target/target.h"
#include "mlir/IR/MLIRContext.h"

namespace {

using namespace tessera;  // NOLINT

double largestDifference(const v1::TensorSpec& spec, const std::string& expected, const std::string& found) {
  if (spec.dtype() != v1::DATA_TYPE_F32) return expected == found ? 0 : INFINITY;
  double largest = 1e-9;
  double difference = 0;
  for (size_t at = 0; at + 4 <= expected.size(); at += 4) {
    float a = 0;
    float b = 0;
    std::memcpy(&a, expected.data() + at, 4);
    std::memcpy(&b, found.data() + at, 4);
    largest = std::max<double>(largest, std::abs(a));
    const double distance = std::abs(a - b);
    difference = std::isnan(distance) ? INFINITY : std::max(difference, distance);
  }
  return difference / largest;
}

void print(const v1::Plan& plan) {
  for (const v1::Step& step : plan.steps()) {
    const v1::Workload& workload = plan.workloads(step.workload());
    std::printf("%s  %s  [%s]\n", workload.symbol().c_str(), workload.summary().c_str(), step.name().c_str());
  }
  for (const v1::RewriteCount& rewrite : plan.report().rewrites()) {
    std::printf("rewrite %s: %d\n", rewrite.name().c_str(), rewrite.count());
  }
  const v1::GraphReport& report = plan.report();
  for (const v1::Decision& decision : report.decisions()) {
    std::printf("%s %s: %s\n", decision.kind().c_str(), decision.taken() ? "taken" : "declined",
                decision.reason().c_str());
  }
  std::printf("nodes %d, steps %d, workloads %d, layout transforms %d of %d\n", report.nodes_before(),
              plan.steps_size(), plan.workloads_size(), report.layout_transforms(), report.layout_transforms_before());
  std::printf("arena %.2f MB, bound %.2f MB, sum %.2f MB, weights %.2f MB\n", plan.arena_bytes() / 1e6,
              report.peak_live_bytes() / 1e6, report.sum_intermediate_bytes() / 1e6, plan.weights_bytes() / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  bool run = false;
  double tolerance = 1e-4;
  bool ir = false;
  int vector_bits = 512;
  std::string chip;
  CLI::App app("Plans an ONNX model and checks the plan against plain loops");
  app.add_option("model", path)->required();
  app.add_flag("--run", run, "run model and plan and compare");
  app.add_flag("--ir", ir, "print the workloads");
  app.add_option("--vector-bits", vector_bits);
  app.add_option("--target", chip, "a built-in target instead of bare vectors");
  app.add_option("--tolerance", tolerance);
  CLI11_PARSE(app, argc, argv);

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  absl::StatusOr<compiler::ImportedModel> model = compiler::importOnnx(context, path, {});
  if (!model.ok()) return std::fprintf(stderr, "%s\n", model.status().ToString().c_str()), 1;
  compiler::TensorBytes inputs;
  for (size_t i = 0; i < model->inputs.size(); ++i) inputs.push_back(compiler::randomBytes(model->inputs[i], i + 1));
  absl::StatusOr<compiler::TensorBytes> expected;
  if (run) expected = compiler::runModel(*model, inputs);
  if (run && !expected.ok()) return std::fprintf(stderr, "%s\n", expected.status().ToString().c_str()), 1;

  v1::Target target;
  target.mutable_registers()->set_vector_bits(vector_bits);
  if (!chip.empty()) {
    const v1::Target* builtin = compiler::findBuiltinTarget(chip);
    if (!builtin) return std::fprintf(stderr, "there is no target \"%s\"\n", chip.c_str()), 1;
    target = *builtin;
  }
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<compiler::PlannedGraph> planned = compiler::planGraph(std::move(*model), target);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  if (!planned.ok()) return std::fprintf(stderr, "%s\n", planned.status().ToString().c_str()), 1;
  print(planned->plan);
  std::printf("planned in %.0f ms\n", elapsed.count());
  if (ir) {
    for (const v1::Workload& workload : planned->plan.workloads()) std::printf("%s\n", workload.ir().c_str());
  }
  if (!run) return 0;
  absl::StatusOr<compiler::TensorBytes> found = compiler::runPlan(*planned, inputs);
  if (!found.ok()) return std::fprintf(stderr, "%s\n", found.status().ToString().c_str()), 1;
  bool equal = true;
  for (int output = 0; output < planned->plan.outputs_size(); ++output) {
    const v1::TensorSpec& spec = planned->plan.outputs(output);
    const double difference = largestDifference(spec, (*expected)[output], (*found)[output]);
    std::printf("%s: %.2e relative to the largest magnitude\n", spec.name().c_str(), difference);
    equal &= difference <= tolerance;
  }
  return equal ? 0 : 2;
}
