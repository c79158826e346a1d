// Plans an ONNX model, interprets it after each step, and prints the plan and the results of these checks. A
// development tool: it verifies plans of real networks independently of code generation.
#include <chrono>
#include <cstdio>

#include "compiler/import/import.h"
#include "compiler/target/target.h"
#include "compiler/verification/graph_check.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/support/cli11.h"

namespace {

using namespace tessera;  // NOLINT

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
  bool verify = false;
  bool ir = false;
  int vector_bits = 512;
  std::string chip;
  CLI::App app("Plans an ONNX model and holds every step against the interpreted model");
  app.add_option("model", path)->required();
  app.add_flag("--run", verify, "interpret the model after each step and compare");
  app.add_flag("--ir", ir, "print the workloads");
  app.add_option("--vector-bits", vector_bits);
  app.add_option("--target", chip, "a built-in target instead of bare vectors");
  CLI11_PARSE(app, argc, argv);

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  absl::StatusOr<compiler::ImportedModel> model = compiler::importOnnx(context, path, {});
  if (!model.ok()) return std::fprintf(stderr, "%s\n", model.status().ToString().c_str()), 1;

  v1::Target target;
  target.mutable_registers()->set_vector_bits(vector_bits);
  target.add_memory()->set_bandwidth_bytes_per_cycle(16);  // one level: no chains
  if (!chip.empty()) {
    const v1::Target* builtin = compiler::findBuiltinTarget(chip);
    if (!builtin) return std::fprintf(stderr, "there is no target \"%s\"\n", chip.c_str()), 1;
    target = *builtin;
  }
  compiler::verification::GraphCheck check;
  compiler::GraphOptions options;
  if (verify) options.observer = &check;
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<compiler::PlannedGraph> planned = compiler::planGraph(std::move(*model), target, options);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  if (!planned.ok()) return std::fprintf(stderr, "%s\n", planned.status().ToString().c_str()), 1;
  print(planned->plan);
  std::printf("planned in %.0f ms\n", elapsed.count());
  if (ir) {
    for (const v1::Workload& workload : planned->plan.workloads()) std::printf("%s\n", workload.ir().c_str());
  }
  for (const v1::VerifiedStep& step : check.steps()) {
    std::printf("verified %s: largest error %.2e, %.3f of its bound%s%s\n", step.step().c_str(), step.largest_error(),
                step.share(), step.skipped().empty() ? "" : "; skipped: ", step.skipped().c_str());
  }
  return 0;
}
