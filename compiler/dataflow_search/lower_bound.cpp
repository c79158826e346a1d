#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/dataflow_search/needed.h"
#include "compiler/dataflow_search/search.h"
#include "compiler/dataflow_search/tile_space.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::dataflow_search {
namespace {

using loopnest::Access;
using loopnest::Nest;

struct Tensor {
  std::string name;
  double written = 0, read = 0;  ///< bytes, at least
};

std::vector<Tensor> tensorsOf(const Nest& nest, const Needed& needed) {
  std::vector<Tensor> tensors;
  const auto touch = [&](int s, int position, bool writes) {
    const Access& access = at(nest.accesses, position);
    auto found = std::ranges::find(tensors, access.name, &Tensor::name);
    if (found == tensors.end()) found = tensors.insert(tensors.end(), {.name = access.name});
    const auto word = static_cast<double>(std::max<int64_t>(1, elementBytes(access.dtype)));
    double& bytes = writes ? found->written : found->read;
    bytes = std::max(bytes, needed.elements(s, position) * word);
  };
  for (int s = 0; s < static_cast<int>(nest.statements.size()); ++s) {
    for (const int input : at(nest.statements, s).inputs) touch(s, input, false);
    touch(s, at(nest.statements, s).output, true);
  }
  return tensors;
}

}  // namespace

Value valueOf(const cost::DataflowCost& cost) {
  Value value{.cycles = cost.cycles, .energy_pj = cost.energy_pj};
  for (const cost::Traffic& traffic : cost.levels.back().tensors)
    value.bytes += (traffic.read + traffic.fill + traffic.update + traffic.drain) * traffic.word_bytes;
  return value;
}

double scoreOf(const Value& value, Objective objective) {
  switch (objective) {
    case Objective::kCycles:
      return value.cycles;
    case Objective::kEnergy:
      return value.energy_pj;
    case Objective::kEnergyDelay:
      return value.cycles * value.energy_pj;
    case Objective::kBytes:
      return value.bytes;
  }
  return value.cycles;
}

absl::StatusOr<LowerBound> lowerBound(const Nest& nest, const cost::Machine& machine, Objective objective) {
  TESSERA_RETURN_IF_ERROR(loopnest::validate(nest));
  if (!nest.isAffine())
    return absl::InvalidArgumentError(absl::StrCat(
        "loop nest '", nest.name, "': a subscript has / or %, dataflows accept sums of multiples of loops"));
  const Needed needed(nest);
  const cost::Machine::Memory& outermost = machine.memories.back();
  double cheapest_read = std::numeric_limits<double>::max(), cheapest_write = cheapest_read, rate = 0, operations = 0;
  double sent = 0, received = 0, read_rate = 0, write_rate = 0;  // between leaves and memories of any level
  for (const cost::Machine::Memory& memory : machine.memories) {
    cheapest_read = std::min(cheapest_read, memory.energyOf(1, 0));
    cheapest_write = std::min(cheapest_write, memory.energyOf(0, 1));
    read_rate += static_cast<double>(memory.instances) * memory.read_bytes_per_cycle;
    write_rate += static_cast<double>(memory.instances) * memory.write_bytes_per_cycle;
  }
  for (const cost::Machine::Unit& unit : machine.units)
    rate += static_cast<double>(unit.count) * unit.operations_per_cycle;
  for (int s = 0; s < static_cast<int>(nest.statements.size()); ++s) {
    const NeededWork work = neededWork(nest, needed, s);
    operations += work.operations;
    sent += work.read_bytes;
    received += work.written_bytes;
  }
  LowerBound bound;
  bound.least.energy_pj = operations * machine.energy_pj_per_operation;
  double in = 0, out = 0;
  for (const Tensor& tensor : tensorsOf(nest, needed)) {
    if (tensor.written > 0 && tensor.read > 0) {
      // Written once and read once, somewhere.
      bound.least.energy_pj += tensor.written * cheapest_write + tensor.read * cheapest_read;
      continue;
    }
    in += tensor.written;
    out += tensor.read;
  }
  bound.least.energy_pj += outermost.energyOf(out, in);
  bound.least.bytes = in + out;
  const std::pair<double, std::string> limits[] = {
      {operations / rate, "computation"},
      {out / outermost.read_bytes_per_cycle, absl::StrCat("reads of ", outermost.name)},
      {in / outermost.write_bytes_per_cycle, absl::StrCat("writes of ", outermost.name)},
      {sent / read_rate, "reads of operands"},
      {received / write_rate, "writes of results"},
  };
  for (const auto& [cycles, reason] : limits) {
    if (cycles <= bound.least.cycles && !bound.reason.empty()) continue;
    bound.least.cycles = cycles;
    bound.reason = reason;
  }
  bound.score = scoreOf(bound.least, objective);
  return bound;
}

}  // namespace tessera::compiler::dataflow_search
