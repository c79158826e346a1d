#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/simulator/kernel.h"
#include "compiler/simulator/mapping_search.h"
#include "compiler/simulator/tile_tree.h"
#include "compiler/simulator/vector_plan.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

/// Whether a vector unit runs the nest with sums as exact as the instruction's in less time.
bool vectorIsFaster(const SpatialNest& nest, const ProductNest& product, double cycles, const v1::Target& target) {
  const v1::DataType summed = product.nest.accesses[0].dtype;
  if (summed == v1::DATA_TYPE_F16 || summed == v1::DATA_TYPE_BF16) return false;
  const absl::StatusOr<VectorPlan> plan = planVector(nest, target);
  const absl::StatusOr<VectorCost> cost = plan.ok() ? costOf(*plan, nest, target) : plan.status();
  return cost.ok() && cost->cycles < cycles;
}

}  // namespace

absl::Status scheduleKernel(v1::SpatialKernel& kernel, const v1::Target& target, const KernelScheduleOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(const CheckedKernel checked, checkKernel(kernel));
  const std::vector<int> fills = fillsOf(checked);
  std::vector<v1::Tile> phases(checked.nests.size());
  std::vector<bool> scheduled(checked.nests.size(), false);
  kernel.clear_schedule();
  kernel.clear_refusal();
  for (size_t n = 0; n < checked.nests.size() && !options.scalar; ++n) {
    const SpatialNest& nest = checked.nests[n];
    const absl::StatusOr<ProductNest> product = productOf(nest, checked);
    if (!product.ok()) continue;
    absl::StatusOr<std::pair<Program, Timeline>> found =
        fills[n] >= 0 ? bestProgram(*product, target)
                      : absl::FailedPreconditionError("its output is not filled with zero before");
    if (!found.ok()) {
      if (product->factors.size() > 1 && kernel.refusal().empty())
        kernel.set_refusal(absl::StrCat(nest.name, ": ", found.status().message()));
      continue;
    }
    if (vectorIsFaster(nest, *product, found->second.cycles, target)) continue;
    phases[n] = treeOf(found->first, static_cast<int>(n));
    phases[static_cast<size_t>(fills[n])] = initialTree(fills[n]);
    scheduled[n] = scheduled[static_cast<size_t>(fills[n])] = true;
  }
  for (size_t n = 0; n < checked.nests.size(); ++n) {
    if (!scheduled[n]) {
      TESSERA_ASSIGN_OR_RETURN(const VectorPlan plan, planVector(checked.nests[n], target));
      phases[n] = treeOf(plan, checked.nests[n], static_cast<int>(n), target);
    }
    *kernel.mutable_schedule()->add_phases() = std::move(phases[n]);
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::simulator
