#include "compiler/intrinsic/physical_mapping.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/target/validate_intrinsic.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::intrinsic {
namespace {

std::string baseText(const Nest& software, const std::vector<Group>& groups, const Placement& placement) {
  std::vector<std::string> terms;
  // Row-major order of the blocks: outer loops first, then the iterations' steps in the statement's block order.
  int64_t weight = saturatedProduct(placement.blocks, placement.block_elements);
  for (int loop : placement.outer) {
    weight /= software.loops[loop].extent;
    terms.push_back(absl::StrCat(software.loops[loop].name, " * ", weight));
  }
  for (int iteration : placement.order) {
    const Group& group = groups[iteration];
    weight /= group.steps;
    if (group.steps == 1) continue;
    const std::string index = indexText(software, group);
    terms.push_back(
        absl::StrCat(group.loops.size() > 1 ? absl::StrCat("(", index, ")") : index, " / ", group.size, " * ", weight));
  }
  return terms.empty() ? "0" : absl::StrJoin(terms, " + ");
}

int64_t capacityOf(const v1::Target& target, const std::string& memory) {
  for (const v1::MemoryLevel& level : target.memory()) {
    if (level.name() == memory && level.capacity_bytes() > 0) return level.capacity_bytes();
  }
  return -1;
}

// An operand's blocks: size from the instruction, order from the nearest transfer, number from the loops outside and
// the steps of its iterations.
Placement placementOf(const Nest& software, const Nest& instruction, const v1::Intrinsic& intrinsic, size_t index,
                      const Matching& matching, const std::vector<Group>& groups, const v1::Target& target) {
  const v1::Intrinsic::Operand& operand = intrinsic.operands(static_cast<int>(index));
  const Access &access = instruction.accesses[index], &array = software.accesses[arrayOf(matching, index)];
  Placement placement;
  placement.memory = operand.memory().empty() ? kRegisters : operand.memory();
  for (int64_t extent : shapeOf(instruction, access))
    placement.block_elements = saturatedProduct(placement.block_elements, extent);
  placement.block_bytes = saturatedProduct(placement.block_elements, elementBytes(access.dtype));
  const v1::Intrinsic::Transfer* transfer = nearestTransfer(intrinsic, operand);
  for (size_t i = 0; i < software.loops.size(); ++i) {
    if (matching.iteration[i] < 0 && array.uses(static_cast<int>(i))) placement.outer.push_back(static_cast<int>(i));
  }
  if (transfer) {
    for (const std::string& name : transfer->block_order()) placement.order.push_back(instruction.loopNamed(name));
    for (const std::string& text : transfer->strides())
      placement.strides.push_back(parseStride(text).value_or(Stride{}));
  }
  for (const Subscript& subscript : access.subscripts) {
    for (const loopnest::Term& term : subscript.terms) {
      // Iterations that the transfer does not order follow in the order of subscripts.
      const bool known = std::find(placement.order.begin(), placement.order.end(), term.loop) != placement.order.end();
      if (!known) placement.order.push_back(term.loop);
    }
  }
  for (int loop : placement.outer) {
    placement.blocks = saturatedProduct(placement.blocks, software.loops[loop].extent);
  }
  for (int iteration : placement.order) placement.blocks = saturatedProduct(placement.blocks, groups[iteration].steps);
  const int64_t capacity = capacityOf(target, placement.memory);
  if (capacity >= 0) placement.blocks_that_fit = capacity / placement.block_bytes;
  placement.base = baseText(software, groups, placement);
  return placement;
}

std::vector<Group> groupsOf(const Nest& software, const Nest& instruction, const Matching& matching) {
  std::vector<Group> groups(instruction.loops.size());
  for (size_t i = 0; i < groups.size(); ++i) groups[i].size = instruction.loops[i].extent;
  for (size_t loop = 0; loop < software.loops.size(); ++loop) {
    if (matching.iteration[loop] < 0) continue;
    Group& group = groups[matching.iteration[loop]];
    group.loops.push_back(static_cast<int>(loop));
    group.extent = saturatedProduct(group.extent, software.loops[loop].extent);
  }
  for (Group& group : groups) group.steps = (group.extent - 1) / group.size + 1;
  return groups;
}

}  // namespace

const v1::Intrinsic::Transfer* nearestTransfer(const v1::Intrinsic& intrinsic, const v1::Intrinsic::Operand& operand) {
  const std::string memory = operand.memory().empty() ? kRegisters : operand.memory();
  const v1::Intrinsic::Transfer* out = nullptr;
  for (const auto& transfer : intrinsic.transfers()) {
    if (transfer.operand() != operand.name()) continue;
    // Sources have a transfer into the memory, results one out of it.
    if (transfer.to() == memory) return &transfer;
    if (transfer.from() == memory) out = &transfer;
  }
  return out;
}

std::string indexText(const Nest& software, const Group& group) {
  std::vector<std::string> terms;
  int64_t weight = group.extent;
  for (int loop : group.loops) {
    weight /= software.loops[loop].extent;
    terms.push_back(weight == 1 ? software.loops[loop].name : absl::StrCat(software.loops[loop].name, " * ", weight));
  }
  return terms.empty() ? "0" : absl::StrJoin(terms, " + ");
}

bool PhysicalMapping::ragged() const {
  return std::any_of(groups.begin(), groups.end(), [](const Group& group) { return group.padding() > 0; });
}

absl::StatusOr<PhysicalMapping> physicalMapping(const Nest& software, const v1::Intrinsic& intrinsic,
                                                const Matching& matching, const v1::Target& target) {
  TESSERA_ASSIGN_OR_RETURN(const Nest instruction, nestOf(intrinsic));
  for (const Access& access : instruction.accesses) {
    const std::vector<int64_t> shape = shapeOf(instruction, access);
    if (std::all_of(shape.begin(), shape.end(), [](int64_t extent) { return extent > 0; })) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("operand ", access.name, " of ", intrinsic.name(),
                     " has a subscript that goes below 0 outside of the bounds; blocks are made where all start at 0"));
  }
  PhysicalMapping mapping;
  mapping.groups = groupsOf(software, instruction, matching);
  bool split_sum = false;
  for (size_t i = 0; i < software.loops.size(); ++i) {
    if (matching.iteration[i] >= 0) continue;
    mapping.outer.push_back(static_cast<int>(i));
    mapping.calls = saturatedProduct(mapping.calls, software.loops[i].extent);
    // A sum outside of the instruction, or in several steps of it, needs an instruction that adds to its destination.
    split_sum = split_sum || (software.isReduction(static_cast<int>(i)) && software.loops[i].extent > 1);
  }
  for (size_t i = 0; i < mapping.groups.size(); ++i) {
    const Group& group = mapping.groups[i];
    mapping.calls = saturatedProduct(mapping.calls, group.steps);
    mapping.utilization *=
        static_cast<double>(group.extent) / (static_cast<double>(group.steps) * static_cast<double>(group.size));
    split_sum = split_sum || (instruction.isReduction(static_cast<int>(i)) && group.steps > 1);
  }
  if (split_sum && formOf(instruction) == v1::Intrinsic::Arithmetic::MULTIPLY) {
    return absl::FailedPreconditionError(
        absl::StrCat(intrinsic.name(), " drops what its destination held, and the sums of ", software.name,
                     " take more than one call; sums that it holds whole are accepted"));
  }
  for (size_t i = 0; i < instruction.accesses.size(); ++i) {
    mapping.operands.push_back(placementOf(software, instruction, intrinsic, i, matching, mapping.groups, target));
    const Placement& placement = mapping.operands.back();
    if (placement.blocks_that_fit != 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("operand ", instruction.accesses[i].name, " of ",
                                                      intrinsic.name(), " has ", placement.block_bytes, " bytes, ",
                                                      placement.memory, " of ", target.name(), " fewer"));
  }
  return mapping;
}

std::string mappingText(const Nest& software, const Nest& instruction, const Matching& matching) {
  std::vector<std::string> names, indices;
  const std::vector<Group> groups = groupsOf(software, instruction, matching);
  for (size_t i = 0; i < groups.size(); ++i) {
    names.push_back(instruction.loops[i].name);
    const std::string index = indexText(software, groups[i]);
    indices.push_back(groups[i].loops.size() > 1 ? absl::StrCat("(", index, ") % ", groups[i].size)
                      : groups[i].loops.empty()  ? "0"
                                                 : absl::StrCat(index, " % ", groups[i].size));
  }
  return absl::StrCat("[", absl::StrJoin(names, ", "), "] <- [", absl::StrJoin(indices, ", "), "]");
}

}  // namespace tessera::compiler::intrinsic
