#include "compiler/backends/cpu/kernel/registry.h"

#include "compiler/backends/cpu/kernel/kernels.h"

namespace tessera::compiler::codegen {

llvm::ArrayRef<const MicroKernel*> microKernels() {
  static const std::array<const MicroKernel*, 11> kKernels = {
      &tileKernel(),         &transformKernel(), &scalarKernel(),     &slidingKernel(),
      &outerProductKernel(), &dotKernel(),       &transposedKernel(), &elementwiseKernel(),
      &horizontalKernel(),   &reductionKernel(), &packKernel()};
  return kKernels;
}

const MicroKernel* kernelNamed(std::string_view name) {
  for (const MicroKernel* each : microKernels())
    if (each->traits().name == name) return each;
  return nullptr;
}

TilePlan planTile(const Nest& nest, const Chip& chip, const PlanConstraints& wanted) {
  const TilePlan vectors = planVectors(nest, chip);
  for (const MicroKernel* kernel : microKernels()) {
    auto plan = kernel->plan(nest, chip, wanted, vectors);
    if (!plan) continue;
    plan->kernel = kernel;
    chooseGrid(nest, chip, *plan);
    return std::move(*plan);
  }
  llvm_unreachable("some kernel runs every nest: elementwise and reduction ask for nothing");
}

TilePlan planScalar(const Nest& nest, const Chip& chip) {
  TilePlan plan = *scalarKernel().plan(nest, chip, {}, emptyPlan(nest));
  plan.kernel = &scalarKernel();
  chooseGrid(nest, chip, plan);
  return plan;
}

}  // namespace tessera::compiler::codegen
