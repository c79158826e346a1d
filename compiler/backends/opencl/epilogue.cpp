#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/backends/opencl/nest_plan.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::SpatialAccess;
using simulator::SpatialNest;

/// The loops of `nest`, matched with those of `product`, such that `read` is the element that the product writes;
/// nothing if they do not match one to one.
std::optional<std::vector<int>> matched(const SpatialNest& nest, const SpatialAccess& read,
                                        const SpatialNest& product) {
  const SpatialAccess& written = product.accesses[0];
  if (!read.position.isAffine() || !written.position.isAffine() || read.position.constant != written.position.constant)
    return std::nullopt;
  std::vector<int> loops(nest.loops.size(), -1);
  std::vector<bool> used(product.loops.size(), false);
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    if (nest.loops[l].extent == 1) continue;
    const int64_t stride = read.position.coefficientOf(static_cast<int>(l));
    for (size_t p = 0; stride != 0 && p < product.loops.size() && loops[l] < 0; ++p) {
      if (used[p] || product.loops[p].extent != nest.loops[l].extent ||
          written.position.coefficientOf(static_cast<int>(p)) != stride)
        continue;
      loops[l] = static_cast<int>(p);
      used[p] = true;
    }
    if (loops[l] < 0) return std::nullopt;
  }
  for (size_t p = 0; p < product.loops.size(); ++p) {
    const bool moves = product.loops[p].extent > 1 && written.position.uses(static_cast<int>(p));
    if (moves && !used[p]) return std::nullopt;
  }
  return loops;
}

}  // namespace

std::optional<Epilogue> epilogueOf(const simulator::CheckedKernel& kernel, int product, int operands) {
  const auto number = static_cast<size_t>(product);
  if (number + 1 >= kernel.nests.size() || simulator::fillsOf(kernel)[number] < 0) return std::nullopt;
  const SpatialNest &before = kernel.nests[number], &nest = kernel.nests[number + 1];
  const int buffer = before.accesses[0].buffer;
  if (buffer < operands || nest.outputs != 1 || nest.accesses[0].buffer == buffer) return std::nullopt;
  for (size_t later = number + 2; later < kernel.nests.size(); ++later)
    if (accessesBuffer(kernel.nests[later], buffer)) return std::nullopt;
  // Work-groups read the product's factors while others write the nest's output.
  for (size_t a = 1; a < before.accesses.size(); ++a)
    if (before.accesses[a].buffer == nest.accesses[0].buffer) return std::nullopt;
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (nest.loops[l].extent > 1 && !parallel[l]) return std::nullopt;
  if (std::ranges::any_of(nest.body, [](const auto& operation) { return operation.name == "load"; }))
    return std::nullopt;
  std::optional<std::vector<int>> loops;
  for (size_t a = 1; a < nest.accesses.size(); ++a) {
    if (nest.accesses[a].buffer != buffer) continue;
    const std::optional<std::vector<int>> own = matched(nest, nest.accesses[a], before);
    if (!own || (loops && *loops != *own)) return std::nullopt;
    loops = own;
  }
  if (!loops) return std::nullopt;
  return Epilogue{.nest = product + 1, .loops = *std::move(loops)};
}

}  // namespace tessera::compiler::opencl
