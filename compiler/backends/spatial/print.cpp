#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/spatial/walk.h"
#include "compiler/intrinsic/layout.h"
#include "compiler/intrinsic/physical_mapping.h"
#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::simulator {
namespace {

std::string addressText(const Buffer& buffer) {
  return buffer.copies == 1 ? absl::StrCat("at ", buffer.base)
                            : absl::StrCat("at ", buffer.base, " and ", buffer.base + buffer.bytes);
}

/// "i/16 x r/16: 8 x 4 blocks of 512".
std::string tileText(const Program& program, const Buffer& buffer) {
  if (buffer.piece > 0) return absl::StrCat("pieces of ", buffer.piece, " blocks of ", buffer.block_bytes);
  std::vector<std::string> names, blocks;
  for (int d : program.walks[buffer.operand]) {
    names.push_back(program.dimensions[d].name);
    blocks.push_back(absl::StrCat(buffer.tile[d]));
  }
  if (names.empty()) return absl::StrCat("one block of ", buffer.block_bytes);
  return absl::StrCat(absl::StrJoin(names, " x "), ": ", absl::StrJoin(blocks, " x "), " blocks of ",
                      buffer.block_bytes);
}

std::string bufferLines(const Program& program) {
  const intrinsic::Choice& choice = program.choice;
  const auto layouts = layoutsOf(choice.software, choice.intrinsic, choice.matching, choice.mapping);
  std::string text;
  for (size_t m = program.memories.size(); m-- > 0;) {
    const Memory& memory = program.memories[m];
    absl::StrAppend(&text, "memory ", memory.name,
                    memory.capacity < 0 ? "" : absl::StrCat(", ", memory.capacity, " bytes"), "\n");
    for (const Buffer& buffer : program.buffers) {
      if (buffer.memory != static_cast<int>(m)) continue;
      absl::StrAppend(&text, "  ", buffer.name, " ", elementText(buffer.dtype), " ", addressText(buffer), ", ",
                      buffer.bytes, " bytes");
      if (buffer.tensor) {
        const auto& arrays = program.choice.software.accesses;
        const auto position = static_cast<size_t>(&buffer - program.buffers.data());
        // Other tensors are the epilogue's.
        const std::string shape = position < arrays.size()
                                      ? absl::StrJoin(shapeOf(program.choice.software, arrays[position]), ", ")
                                      : absl::StrCat(buffer.bytes / elementBytes(buffer.dtype));
        absl::StrAppend(&text, ", tensor [", shape, "]\n");
      } else {
        const intrinsic::OperandLayout& layout = layouts[static_cast<size_t>(buffer.operand)];
        const bool fractal = layout.memory == memory.name && !layout.fractal.empty();
        absl::StrAppend(&text, ", ", tileText(program, buffer), fractal ? ", fractal " + layout.fractal : "", "\n");
      }
    }
  }
  return text;
}

/// The dimensions of a call: "i/16 < 8, j/16 < 4, r/16 < 2".
std::string callText(const Program& program) {
  std::vector<int64_t> inner;
  for (const Dimension& dimension : program.dimensions) inner.push_back(dimension.blocks);
  for (const ProgramLoop& loop : program.loops) inner[loop.dimension] = loop.step;
  std::vector<std::string> parts;
  for (const bool sum : {true, false}) {
    for (size_t d = 0; d < inner.size(); ++d) {
      if (program.dimensions[d].sum != sum || inner[d] == 1) continue;
      parts.push_back(absl::StrCat(program.dimensions[d].name, " < ", inner[d]));
    }
  }
  return parts.empty() ? "" : absl::StrCat(" for ", absl::StrJoin(parts, ", "));
}

}  // namespace

std::string print(const Program& program) {
  const intrinsic::Choice& choice = program.choice;
  std::string text =
      absl::StrCat("program ", choice.software.name, " on ", program.chip, "\n  ", print(choice.software), "\n  ",
                   computeText(choice.intrinsic), "\n  ",
                   mappingText(choice.software, program.instruction, choice.matching), "\n", bufferLines(program));
  for (const Memory& cache : program.caches) absl::StrAppend(&text, "cache ", cache.name, "\n");
  absl::StrAppend(&text, "steps\n");
  const auto lines = [&](size_t depth, bool after) {
    for (const Step& step : program.steps) {
      if (step.depth != static_cast<int>(depth) || step.after != after) continue;
      absl::StrAppend(&text, std::string(2 * depth + 2, ' '), stepText(program, step),
                      step.kind == Step::kCall ? callText(program) : "", "\n");
    }
  };
  for (size_t l = 0; l <= program.loops.size(); ++l) {
    lines(l, false);
    if (l == program.loops.size()) break;
    const ProgramLoop& loop = program.loops[l];
    absl::StrAppend(&text, std::string(2 * l + 2, ' '), "for ", program.dimensions[loop.dimension].name, ", ",
                    loop.trips, " times ", loop.step, " of ", program.dimensions[loop.dimension].blocks,
                    l < static_cast<size_t>(program.shared)
                        ? absl::StrCat(", shared by ", program.units, " of ", program.unit)
                        : "",
                    "\n");
  }
  for (size_t l = program.loops.size() + 1; l-- > 0;) lines(l, true);
  return text;
}

absl::Status checkBuffers(const Program& program) {
  const auto nameOf = [&](const Buffer& buffer) {
    return absl::StrCat(program.memories[buffer.memory].name, ".", buffer.name);
  };
  for (const Buffer& buffer : program.buffers) {
    const Memory& memory = program.memories[buffer.memory];
    const int64_t end = buffer.base + buffer.bytes * buffer.copies;
    if (buffer.base < 0 || (memory.capacity >= 0 && end > memory.capacity)) {
      return absl::InvalidArgumentError(absl::StrCat(nameOf(buffer), " is at ", buffer.base, " to ", end, "; ",
                                                     memory.name, " has ", memory.capacity, " bytes"));
    }
    if (!buffer.tensor && (buffer.base % memory.alignment != 0 || buffer.block_bytes % memory.alignment != 0)) {
      return absl::InvalidArgumentError(absl::StrCat(nameOf(buffer), " at ", buffer.base, " with blocks of ",
                                                     buffer.block_bytes, " bytes is not aligned to ",
                                                     memory.alignment));
    }
    for (const Buffer& other : program.buffers) {
      if (&other == &buffer || other.memory != buffer.memory || other.base < buffer.base || other.base >= end) continue;
      return absl::InvalidArgumentError(absl::StrCat(nameOf(other), " at ", other.base, " is within ", nameOf(buffer),
                                                     ", which is at ", buffer.base, " to ", end));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::simulator
