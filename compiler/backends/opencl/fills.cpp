#include <algorithm>
#include <string>
#include <vector>

#include "compiler/backends/opencl/element_code.h"
#include "compiler/backends/opencl/nest_plan.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::CheckedKernel;
using simulator::SpatialAccess;
using simulator::SpatialNest;
using simulator::SpatialOperation;

/// Whether `fill` stores one constant in exactly the elements that `nest` writes, and does nothing else.
bool fillsOutputOf(const SpatialNest& fill, const SpatialNest& nest) {
  SpatialNest zeros = fill;
  for (SpatialOperation& operation : zeros.body)
    if (operation.name == "constant") std::ranges::fill(operation.constant, '\0');
  return simulator::fillsWithZero(zeros, nest);
}

}  // namespace

bool accessesBuffer(const SpatialNest& nest, int buffer) {
  return std::ranges::any_of(nest.accesses, [&](const SpatialAccess& each) { return each.buffer == buffer; }) ||
         std::ranges::any_of(nest.body, [&](const SpatialOperation& each) {
           return each.name == "load" && each.access.buffer == buffer;
         });
}

std::vector<int> initialFillsOf(const CheckedKernel& kernel) {
  std::vector<int> fills(kernel.nests.size(), -1);
  for (size_t n = 0; n < kernel.nests.size(); ++n) {
    const SpatialNest& nest = kernel.nests[n];
    if (nest.outputs != 1) continue;
    for (size_t before = n; before-- > 0;) {
      if (!accessesBuffer(kernel.nests[before], nest.accesses[0].buffer)) continue;
      if (fillsOutputOf(kernel.nests[before], nest)) fills[n] = static_cast<int>(before);
      break;
    }
  }
  return fills;
}

std::string fillCode(const SpatialNest& fill) {
  const SpatialOperation& constant = fill.body[static_cast<size_t>(fill.yields[0]) - fill.accesses.size()];
  return literalCode(constant.dtype, constant.constant);
}

bool keepsOutputs(const SpatialNest& nest) {
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  bool serial = false;
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    if (parallel[l] || nest.loops[l].extent == 1) continue;
    serial = true;
    for (int o = 0; o < nest.outputs; ++o)
      if (nest.accesses[static_cast<size_t>(o)].position.uses(static_cast<int>(l))) return false;
  }
  for (int o = 0; o < nest.outputs; ++o) {
    const SpatialAccess& written = nest.accesses[static_cast<size_t>(o)];
    for (size_t a = 0; a < nest.accesses.size(); ++a) {
      const SpatialAccess& other = nest.accesses[a];
      if (static_cast<int>(a) == o || other.buffer != written.buffer || isOwnElement(nest, a, o)) continue;
      if (other.range.high >= written.range.low && written.range.high >= other.range.low) return false;
    }
    for (const SpatialOperation& operation : nest.body)
      if (operation.name == "load" && operation.access.buffer == written.buffer) return false;
  }
  return serial;
}

bool isOwnElement(const SpatialNest& nest, size_t input, int output) {
  const SpatialAccess &read = nest.accesses[input], &written = nest.accesses[static_cast<size_t>(output)];
  return static_cast<int>(input) >= nest.outputs && read.buffer == written.buffer && read.position == written.position;
}

}  // namespace tessera::compiler::opencl
