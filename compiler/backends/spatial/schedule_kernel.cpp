#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/epilogue.h"
#include "compiler/backends/spatial/kernel.h"
#include "compiler/backends/spatial/mapping_search.h"
#include "compiler/backends/spatial/tile_tree.h"
#include "compiler/backends/spatial/vector_plan.h"
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

/// A product with the nest that follows it on the results, if that is faster than one after the other.
std::optional<Program> fused(const CheckedKernel& kernel, int nest, int follower, const ProductNest& product,
                             const std::pair<Program, Timeline>& plain, const v1::Target& target) {
  const absl::StatusOr<Epilogue> epilogue = fastestEpilogue(kernel, nest, follower, target);
  if (!epilogue.ok()) return std::nullopt;
  auto found = fusedProgram(plain.first, product, *epilogue, target);
  if (!found.ok()) return std::nullopt;
  const SpatialNest& second = kernel.nests[static_cast<size_t>(follower)];
  const absl::StatusOr<VectorPlan> alone = planVector(second, target);
  if (!alone.ok()) return std::move(found->first);
  const absl::StatusOr<VectorCost> cost = costOf(*alone, second, target);
  if (cost.ok() && plain.second.cycles + cost->cycles <= found->second.cycles) return std::nullopt;
  return std::move(found->first);
}

}  // namespace

absl::Status scheduleKernel(v1::SpatialKernel& kernel, const v1::Target& target, const KernelScheduleOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(const CheckedKernel checked, checkKernel(kernel));
  const std::vector<int> fills = fillsOf(checked);
  const auto nests = static_cast<int>(checked.nests.size());
  std::map<int, v1::Tile> phases;  // by the last nest of each
  std::vector<bool> scheduled(checked.nests.size(), false);
  kernel.clear_schedule();
  kernel.clear_refusal();
  for (int n = 0; n < nests && !options.scalar; ++n) {
    const SpatialNest& nest = checked.nests[static_cast<size_t>(n)];
    const int fill = fills[static_cast<size_t>(n)];
    const absl::StatusOr<ProductNest> product = productOf(nest, checked);
    if (!product.ok() || scheduled[static_cast<size_t>(n)]) continue;
    absl::StatusOr<std::pair<Program, Timeline>> found =
        fill >= 0 ? bestProgram(*product, target)
                  : absl::FailedPreconditionError("its output is not filled with zero before");
    if (!found.ok()) {
      if (product->factors.size() > 1 && kernel.refusal().empty())
        kernel.set_refusal(absl::StrCat(nest.name, ": ", found.status().message()));
      continue;
    }
    if (vectorIsFaster(nest, *product, found->second.cycles, target)) continue;
    // A nest that reads the results of two products follows the first of them.
    const int follower = followerOf(checked, n);
    const std::optional<Program> both = follower >= 0 && !scheduled[static_cast<size_t>(follower)]
                                            ? fused(checked, n, follower, *product, *found, target)
                                            : std::nullopt;
    phases[both ? follower : n] = both ? treeOf(*both, n, follower) : treeOf(found->first, n);
    phases[fill] = initialTree(fill);
    for (const int done : {n, fill, both ? follower : n}) scheduled[static_cast<size_t>(done)] = true;
  }
  for (int n = 0; n < nests; ++n) {
    if (scheduled[static_cast<size_t>(n)]) continue;
    const SpatialNest& nest = checked.nests[static_cast<size_t>(n)];
    TESSERA_ASSIGN_OR_RETURN(const VectorPlan plan, planVector(nest, target));
    phases[n] = treeOf(plan, nest, n, target);
  }
  for (auto& [last, phase] : phases) *kernel.mutable_schedule()->add_phases() = std::move(phase);
  return absl::OkStatus();
}

}  // namespace tessera::compiler::simulator
