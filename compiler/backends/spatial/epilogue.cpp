#include "compiler/backends/spatial/epilogue.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/nest_form.h"
#include "compiler/backends/spatial/vector_unit.h"

namespace tessera::compiler::simulator {
namespace {

absl::Status cannotFollow(const std::string& why) { return absl::FailedPreconditionError(why); }

bool writes(const SpatialNest& nest, int buffer) {
  for (int output = 0; output < nest.outputs; ++output)
    if (nest.accesses[static_cast<size_t>(output)].buffer == buffer) return true;
  return false;
}

/// The conditions on the follower alone.
absl::StatusOr<int> onlyAccessTo(const SpatialNest& nest, int buffer) {
  if (nest.outputs != 1) return cannotFollow("it has several outputs");
  const std::vector<bool> parallel = parallelLoopsOf(nest);
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (nest.loops[l].extent > 1 && !parallel[l]) return cannotFollow("its points depend on each other");
  if (std::ranges::any_of(nest.body, [](const SpatialOperation& operation) { return operation.name == "load"; }))
    return cannotFollow("it loads elements at computed positions");
  int carried = -1;
  for (int a = 0; a < static_cast<int>(nest.accesses.size()); ++a) {
    if (nest.accesses[static_cast<size_t>(a)].buffer != buffer || (a == 0 && !nest.reads(0))) continue;
    if (carried >= 0) return cannotFollow("it reads several results at each point");
    carried = a;
  }
  if (carried < 0) return cannotFollow("it does not read the results");
  if (carried != 0 && nest.reads(0)) return cannotFollow("it reads its own output");
  const SpatialAccess& access = nest.accesses[static_cast<size_t>(carried)];
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (nest.loops[l].extent > 1 && !access.position.uses(static_cast<int>(l)))
      return cannotFollow("several of its points read one result");
  return carried;
}

}  // namespace

absl::StatusOr<int> carriedAccess(const CheckedKernel& kernel, int product, int follower) {
  const auto nests = static_cast<int>(kernel.nests.size());
  if (product < 0 || follower <= product || follower >= nests) return cannotFollow("it does not run after the product");
  const SpatialNest& first = kernel.nests[static_cast<size_t>(product)];
  const SpatialNest& second = kernel.nests[static_cast<size_t>(follower)];
  if (first.outputs != 1) return cannotFollow("the product has several outputs");
  const SpatialAccess& results = first.accesses[0];
  absl::StatusOr<int> carried = onlyAccessTo(second, results.buffer);
  if (!carried.ok()) return carried;
  const SpatialAccess& read = second.accesses[static_cast<size_t>(*carried)];
  const auto written = elementsWalked(first, results), taken = elementsWalked(second, read);
  if (!written || !taken || *written != *taken || results.position.constant != read.position.constant)
    return cannotFollow("it does not read exactly the results");
  // Elsewhere than in place, the results do not exist after the follower.
  const SpatialAccess& output = second.accesses[0];
  const bool in_place = output.buffer == results.buffer;
  if (in_place && output.position != read.position) return cannotFollow("it moves the results within their buffer");
  if (!in_place && results.buffer < kernel.operands) return cannotFollow("the results are an operand of the kernel");
  for (const SpatialAccess& factor : first.accesses)
    if (&factor != &results && factor.buffer == output.buffer)
      return cannotFollow("it overwrites a factor of the product");
  for (int n = product + 1; n < nests; ++n) {
    const SpatialNest& other = kernel.nests[static_cast<size_t>(n)];
    if (n == follower || (n > follower && in_place)) continue;
    if (touches(other, results.buffer)) return cannotFollow(absl::StrCat("nest ", n, " needs the results too"));
    if (n > follower) continue;
    for (const SpatialAccess& factor : first.accesses)
      if (writes(other, factor.buffer))
        return cannotFollow(absl::StrCat("nest ", n, ", in between, overwrites a factor of the product"));
  }
  return carried;
}

int followerOf(const CheckedKernel& kernel, int product) {
  const int results = kernel.nests[static_cast<size_t>(product)].accesses[0].buffer;
  for (int n = product + 1; n < static_cast<int>(kernel.nests.size()); ++n)
    if (touches(kernel.nests[static_cast<size_t>(n)], results)) return carriedAccess(kernel, product, n).ok() ? n : -1;
  return -1;
}

absl::StatusOr<Epilogue> epilogueOn(const CheckedKernel& kernel, int product, int follower, const std::string& unit,
                                    const v1::Target& target) {
  const absl::StatusOr<int> carried = carriedAccess(kernel, product, follower);
  if (!carried.ok()) return carried.status();
  Epilogue epilogue{.nest = kernel.nests[static_cast<size_t>(follower)], .carried = *carried, .unit = unit};
  for (const SpatialAccess& access : epilogue.nest.accesses)
    epilogue.elements.push_back(kernel.elements[static_cast<size_t>(access.buffer)]);
  for (const VectorUnit& each : elementUnitsOf(target)) {
    if (each.unit->name() != unit) continue;
    if (each.levels.size() < 2) return cannotFollow(absl::StrCat(unit, " works on the outermost memory"));
    std::string missing;
    const std::optional<PointCost> point = pointCostOf(epilogue.nest, *each.unit, missing);
    if (!point)
      return cannotFollow(absl::StrCat(target.name(), " describes no rate of ", missing, " for its unit ", unit));
    epilogue.lanes = std::max(1, each.unit->lanes());
    epilogue.instances = each.instances;
    epilogue.level = each.levels.front().name;
    epilogue.cycles = point->cycles;
    epilogue.operations = point->operations;
    epilogue.picojoules = point->energy_pj;
    return epilogue;
  }
  return cannotFollow(absl::StrCat("no vector unit of ", target.name(), ": '", unit, "'"));
}

absl::StatusOr<Epilogue> fastestEpilogue(const CheckedKernel& kernel, int product, int follower,
                                         const v1::Target& target) {
  absl::StatusOr<Epilogue> best = cannotFollow("the chip has no vector unit");
  const auto perPoint = [](const Epilogue& each) { return each.cycles / static_cast<double>(each.instances); };
  for (const VectorUnit& unit : elementUnitsOf(target)) {
    absl::StatusOr<Epilogue> next = epilogueOn(kernel, product, follower, unit.unit->name(), target);
    if (!best.ok() || (next.ok() && perPoint(*next) < perPoint(*best))) best = std::move(next);
  }
  return best;
}

PointOfElement::PointOfElement(const SpatialNest& nest, const SpatialAccess& access)
    : constant_(access.position.constant) {
  for (const loopnest::Term& term : access.position.terms)
    if (nest.loops[static_cast<size_t>(term.loop)].extent > 1)
      strides_.emplace_back(term.coefficient, static_cast<size_t>(term.loop));
  std::ranges::sort(strides_, std::greater());
}

void PointOfElement::at(int64_t element, std::vector<int64_t>& point) const {
  // Each stride exceeds what the smaller ones reach together.
  int64_t rest = element - constant_;
  for (const auto& [stride, loop] : strides_) {
    point[loop] = rest / stride;
    rest %= stride;
  }
}

}  // namespace tessera::compiler::simulator
