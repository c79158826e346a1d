#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/dataflow_search/search.h"
#include "compiler/dataflow_search/tile_space.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::dataflow_search {

absl::Status checkSearchable(const loopnest::Nest& nest, const cost::Machine& machine) {
  TESSERA_RETURN_IF_ERROR(loopnest::validate(nest));
  if (!nest.isAffine())
    return absl::InvalidArgumentError(absl::StrCat(
        "loop nest '", nest.name, "': a subscript has / or %, dataflows accept sums of multiples of loops"));
  if (machine.memories.size() < 2 || machine.memories.size() > kMaxLevels)
    return absl::InvalidArgumentError(
        absl::StrCat("the chip has ", machine.memories.size(), " memories; the search accepts 2 to ", kMaxLevels));
  if (machine.units.empty() || machine.units.size() > kMaxUnits)
    return absl::InvalidArgumentError(
        absl::StrCat("the chip has ", machine.units.size(), " kinds of units; the search accepts 1 to ", kMaxUnits));
  constexpr size_t kMaxLoops = 60;
  if (nest.loops.size() > kMaxLoops)
    return absl::InvalidArgumentError(
        absl::StrCat("the problem has ", nest.loops.size(), " loops; the search accepts ", kMaxLoops));
  for (const loopnest::Statement& statement : nest.statements) {
    const loopnest::Access& output = at(nest.accesses, statement.output);
    std::vector<bool> seen(nest.loops.size(), false);
    for (const loopnest::Subscript& subscript : output.subscripts) {
      const bool plain =
          subscript.terms.empty() ||
          (subscript.terms.size() == 1 && subscript.terms[0].coefficient == 1 && !at(seen, subscript.terms[0].loop));
      if (!plain)
        return absl::InvalidArgumentError(absl::StrCat("statement '", statement.name, "' writes ", output.name,
                                                       " at sums or multiples of loops; the search accepts results "
                                                       "with one loop for each dimension"));
      if (!subscript.terms.empty()) at(seen, subscript.terms[0].loop) = true;
    }
  }
  return absl::OkStatus();
}

std::string tooLargeTile(const loopnest::Nest& nest, const cost::Machine& machine) {
  const std::vector<bool> windows = windowLoops(nest);
  for (const loopnest::Statement& statement : nest.statements) {
    std::map<std::string, int64_t> bytes;  // of each tensor, at least
    const auto add = [&](int position) {
      const loopnest::Access& access = at(nest.accesses, position);
      int64_t slice = std::max<int64_t>(1, elementBytes(access.dtype));
      for (const loopnest::Subscript& subscript : access.subscripts) {
        // A sum of two sets has at least the sum of their sizes less one elements.
        int64_t values = 1;
        for (const loopnest::Term& term : subscript.terms)
          if (at(windows, term.loop)) values += at(nest.loops, term.loop).extent - 1;
        slice = loopnest::saturatedProduct(slice, values);
      }
      int64_t& most = bytes[access.name];
      most = std::max(most, slice);
    };
    for (const int input : statement.inputs) add(input);
    add(statement.output);
    double all = 0;
    for (const auto& [name, each] : bytes) all += static_cast<double>(each);
    for (size_t level = 0; level + 1 < machine.memories.size(); ++level) {
      const cost::Machine::Memory& memory = machine.memories[level];
      if (memory.capacity_bytes > 0 && all > static_cast<double>(memory.capacity_bytes))
        return absl::StrCat("statement '", statement.name, "' needs ", all, " bytes of ", memory.name,
                            " for one iteration of its loops; the level has ", memory.capacity_bytes);
    }
  }
  return "";
}

cost::Machine withoutFinerUnits(cost::Machine machine) {
  std::vector<cost::Machine::Unit> kept;
  const auto rateOf = [](const cost::Machine::Unit& unit) {
    return static_cast<double>(unit.count) * unit.operations_per_cycle;
  };
  for (const cost::Machine::Unit& unit : machine.units) {
    const bool known = std::ranges::any_of(kept, [&](const auto& each) { return rateOf(each) == rateOf(unit); });
    if (!known && unit.operations_per_cycle > 0) kept.push_back(unit);
  }
  machine.units = std::move(kept);
  return machine;
}

std::vector<std::string> leftOut(const loopnest::Nest& nest, const cost::Machine& machine) {
  std::vector<std::string> sentences = {
      "Orders of the operators other than that of the problem, and phases of operators that do not follow each other.",
      "Steps that do not divide the iterations around them.",
      "Two temporal loops over one dimension in one tile, and spatial loops inside of temporal ones of their tile.",
      "Tensors that bypass a level, and tiles that leave out a level.",
      "Leaves whose step takes more than one cycle of the unit, or could be larger within one cycle.",
  };
  if (nest.statements.size() > 1) {
    sentences.emplace_back("Groups inside of groups: the operators of a phase separate in one tile.");
    sentences.emplace_back("Para.");
  }
  bool many = false;
  for (const loopnest::Statement& statement : nest.statements) many = many || statement.loops.size() > 3;
  if (many)
    sentences.emplace_back(
        "Of tiles with more than three temporal loops, orders other than those that keep one tensor in place.");
  const std::vector<bool> windows = windowLoops(nest);
  if (std::ranges::find(windows, true) != windows.end())
    sentences.emplace_back("Tiles outside of leaves that cut loops of convolution windows.");
  if (machine.units.size() > 1) sentences.emplace_back("Spatial loops over other units than the first kind.");
  return sentences;
}

}  // namespace tessera::compiler::dataflow_search
