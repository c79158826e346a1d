#include "compiler/intrinsic/layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/target/validate_intrinsic.h"

namespace tessera::compiler::intrinsic {
namespace {

/// A part of a subscript within a block.
struct Digit {
  std::string name;
  int64_t extent = 1, stride = 1;
  size_t position = 0;
};

std::vector<Digit> digitsOf(const std::string& subscript, int64_t extent, const Stride& stride) {
  std::vector<Digit> digits;
  int64_t covered = 1;
  for (const Stride::Part& part : stride.inner) {
    digits.push_back({covered == 1 ? absl::StrCat(subscript, " % ", part.extent)
                                   : absl::StrCat(subscript, " / ", covered, " % ", part.extent),
                      part.extent, part.stride, 0});
    covered *= part.extent;
  }
  // The rest of the subscript, outside of the parts that the stride text lists.
  if (extent > covered) {
    digits.push_back(
        {covered == 1 ? absl::StrCat(subscript, " % ", extent) : absl::StrCat(subscript, " % ", extent, " / ", covered),
         extent / covered, stride.outer, 0});
  }
  return digits;
}

}  // namespace

std::vector<OperandLayout> layoutsOf(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                                     const PhysicalMapping& mapping) {
  std::vector<OperandLayout> layouts;
  const Nest instruction = nestOf(intrinsic).value_or(Nest{});
  for (size_t i = 0; i < instruction.accesses.size(); ++i) {
    const v1::Intrinsic::Operand& operand = intrinsic.operands(static_cast<int>(i));
    const v1::Intrinsic::Transfer* transfer = nearestTransfer(intrinsic, operand);
    const Placement& placement = mapping.operands[i];
    OperandLayout layout;
    layout.operand = operand.name();
    layout.array = software.accesses[arrayOf(matching, i)].name;
    const std::string home = operand.memory().empty() ? kRegisters : operand.memory();
    if (transfer) layout.memory = transfer->to() == home ? transfer->from() : transfer->to();
    if (transfer) layout.alignment_bytes = transfer->alignment_bytes();
    // A free stride lets rows have any length: then the layout is that of the tensor.
    layout.blocked = std::none_of(placement.strides.begin(), placement.strides.end(),
                                  [](const Stride& stride) { return stride.outer == Stride::kFree; });
    for (int iteration : placement.order) {
      const Group& group = mapping.groups[iteration];
      layout.names.push_back(absl::StrCat(instruction.loops[iteration].name, " / ", group.size));
      layout.extents.push_back(group.steps);
    }
    const std::vector<int64_t> shape = shapeOf(instruction, instruction.accesses[i]);
    std::vector<Digit> digits;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Stride stride = d < placement.strides.size() ? placement.strides[d] : Stride{};
      for (Digit& digit : digitsOf(operand.subscripts(static_cast<int>(d)), shape[d], stride)) {
        digits.push_back(std::move(digit));
      }
    }
    // Largest stride first; ties keep the order of subscripts.
    for (size_t d = 0; d < digits.size(); ++d) digits[d].position = d;
    std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) {
      const auto far = [](const Digit& digit) { return digit.stride == Stride::kFree ? INT64_MAX : digit.stride; };
      return far(a) != far(b) ? far(a) > far(b) : a.position < b.position;
    });
    for (const Digit& digit : digits) {
      layout.names.push_back(digit.name);
      layout.extents.push_back(digit.extent);
    }
    if (layout.blocked && shape.size() == 2 && placement.strides.size() == 2 && placement.strides[0].inner.empty() &&
        placement.strides[1].inner.empty()) {
      // Names as for Ascend chips: the small letter is the order within a block (z: rows), the capital one that of the
      // blocks.
      layout.fractal = placement.strides[1].outer == 1 ? "z" : "n";
      if (transfer && transfer->block_order_size() == 2) {
        layout.fractal += instruction.accesses[i].subscripts[0].coefficientOf(placement.order[0]) != 0 ? "Z" : "N";
      }
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

std::vector<PaddingDecision> paddingOf(const Nest&, const v1::Intrinsic& intrinsic, const PhysicalMapping& mapping,
                                       const v1::Target& target) {
  double others = 0;  // operations per cycle of the best unit other than the instruction's
  const std::string unit =
      intrinsic.unit().empty() && target.units_size() > 0 ? target.units(0).name() : intrinsic.unit();
  for (const v1::ComputeUnit& other : target.units()) {
    if (other.name() != unit) others = std::max(others, other.ops_per_cycle());
  }
  const double interval = intrinsic.cycles_per_issue() > 0 ? intrinsic.cycles_per_issue() : intrinsic.latency_cycles();
  std::vector<PaddingDecision> decisions;
  for (size_t i = 0; i < mapping.groups.size(); ++i) {
    const Group& group = mapping.groups[i];
    if (group.loops.empty()) continue;
    PaddingDecision decision;
    decision.iteration = intrinsic.iterations(static_cast<int>(i)).name();
    decision.extent = decision.padded = group.extent;
    if (group.padding() > 0) {
      const double calls = static_cast<double>(mapping.calls) / static_cast<double>(group.steps);
      double points = calls;  // of the tail
      for (size_t j = 0; j < mapping.groups.size(); ++j) {
        const Group& other = mapping.groups[j];
        // Points of the tail: the rest along this iteration, the average of a call along the others.
        points *= j == i ? static_cast<double>(group.extent % group.size)
                         : static_cast<double>(other.extent) / static_cast<double>(other.steps);
      }
      decision.padded_cycles = calls * interval;
      // Two operations, a product and a sum, for each point.
      decision.tail_cycles = others > 0 ? 2 * points / others : 0;
      decision.pad = others == 0 || decision.padded_cycles <= decision.tail_cycles;
      if (decision.pad) decision.padded = group.steps * group.size;
      decision.on_the_way = true;
      for (int operand = 1; operand < intrinsic.operands_size(); ++operand) {
        const std::vector<int>& order = mapping.operands[operand].order;
        if (std::find(order.begin(), order.end(), static_cast<int>(i)) == order.end()) continue;
        const bool pads = std::any_of(intrinsic.transfers().begin(), intrinsic.transfers().end(), [&](const auto& t) {
          return t.pads() && t.operand() == intrinsic.operands(operand).name();
        });
        decision.on_the_way = decision.on_the_way && pads;
      }
    }
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

std::string print(const std::vector<OperandLayout>& layouts) {
  std::string text;
  for (const OperandLayout& layout : layouts) {
    absl::StrAppend(&text, layout.operand, " (", layout.array, ") in ",
                    layout.memory.empty() ? "memory" : layout.memory);
    absl::StrAppend(&text, layout.fractal.empty() ? "" : absl::StrCat(", fractal ", layout.fractal));
    if (!layout.blocked) {
      absl::StrAppend(&text, ", rows of any length\n");
      continue;
    }
    absl::StrAppend(&text, ": [", absl::StrJoin(layout.names, ", "), "] = ", absl::StrJoin(layout.extents, " x "),
                    layout.alignment_bytes > 0 ? absl::StrCat(", aligned to ", layout.alignment_bytes) : "", "\n");
  }
  return text;
}

std::string print(const std::vector<PaddingDecision>& decisions) {
  std::string text;
  for (const PaddingDecision& decision : decisions) {
    absl::StrAppend(&text, decision.iteration, ": ", decision.extent);
    if (decision.padded_cycles == 0) {
      text += ", no tail\n";
      continue;
    }
    absl::StrAppend(&text, decision.pad ? absl::StrCat(" padded to ", decision.padded) : ", the tail elsewhere");
    if (decision.pad) absl::StrAppend(&text, decision.on_the_way ? " by the loads" : " when it is packed");
    absl::StrAppendFormat(&text, "; %.0f cycles", decision.padded_cycles);
    text += decision.tail_cycles > 0 ? absl::StrFormat(", %.0f of other units\n", decision.tail_cycles)
                                     : std::string(", no other unit\n");
  }
  return text;
}

}  // namespace tessera::compiler::intrinsic
