#include "compiler/intrinsic/explain.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/intrinsic/verify.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::intrinsic {
namespace {

std::string strideText(const Stride& stride) {
  std::string text;
  for (const Stride::Part& part : stride.inner) absl::StrAppend(&text, part.extent, ":", part.stride, ",");
  return text + (stride.outer == Stride::kFree ? "free" : absl::StrCat(stride.outer));
}

}  // namespace

std::string explain(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                    const PhysicalMapping& mapping) {
  const absl::StatusOr<Nest> instruction = nestOf(intrinsic);
  if (!instruction.ok()) return std::string(instruction.status().message());
  const MappingMatrices matrices = matricesOf(software, *instruction, matching);
  std::string text =
      absl::StrCat(print(software), "\n", computeText(intrinsic), "\n\nX, arrays by loops\n", print(matrices.software),
                   "Y, iterations by loops\n", print(matrices.mapping), "Z, operands by iterations\n",
                   print(matrices.instruction), "Z * Y = X and X * Y^T = Z hold\n\nvirtual\n");
  for (size_t i = 0; i < mapping.groups.size(); ++i) {
    const Group& group = mapping.groups[i];
    absl::StrAppend(&text, "  ", instruction->loops[i].name, " <- ", indexText(software, group), "  of ", group.extent,
                    "\n");
  }
  absl::StrAppend(&text, "physical\n  ", mappingText(software, *instruction, matching), "\n");
  for (size_t i = 0; i < mapping.groups.size(); ++i) {
    const Group& group = mapping.groups[i];
    absl::StrAppend(&text, "  ", instruction->loops[i].name, ": ", group.steps, " x ", group.size,
                    group.padding() > 0 ? absl::StrCat(", the last padded by ", group.padding()) : ", no tail", "\n");
  }
  std::vector<std::string> outer;
  for (int loop : mapping.outer)
    outer.push_back(absl::StrCat(software.loops[loop].name, " < ", software.loops[loop].extent));
  absl::StrAppend(&text, "  outside: ", outer.empty() ? "nothing" : absl::StrJoin(outer, ", "), "\n");
  absl::StrAppendFormat(&text,
                        "  %d calls, %.1f %% of their points are the operator's\naddresses, in elements of blocks\n",
                        mapping.calls, 100 * mapping.utilization);
  for (size_t i = 0; i < mapping.operands.size(); ++i) {
    const Placement& placement = mapping.operands[i];
    std::vector<std::string> strides;
    for (const Stride& stride : placement.strides) strides.push_back(strideText(stride));
    absl::StrAppend(&text, "  ", instruction->accesses[i].name, " (", software.accesses[arrayOf(matching, i)].name,
                    ") in ", placement.memory, ": base ", placement.base,
                    strides.empty() ? "" : absl::StrCat(", strides ", absl::StrJoin(strides, " ")), ", ",
                    placement.blocks, " blocks of ", placement.block_bytes, " bytes");
    if (placement.blocks_that_fit >= 0) absl::StrAppend(&text, ", ", placement.blocks_that_fit, " fit");
    text += "\n";
  }
  return text;
}

}  // namespace tessera::compiler::intrinsic
