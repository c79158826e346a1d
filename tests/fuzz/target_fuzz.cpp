// Untrusted bytes as a target description: parsing never crashes, each fault has a location, an accepted description
// has a canonical form, and its instructions can be enumerated and mapped.
#include <google/protobuf/text_format.h>

#include <string>

#include "compiler/backends/spatial/lower.h"
#include "compiler/backends/spatial/timeline.h"
#include "compiler/intrinsic/layout.h"
#include "compiler/intrinsic/matching.h"
#include "compiler/target/difference.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/positions.h"
#include "compiler/target/target.h"

using namespace tessera;            // NOLINT: a fuzzer of one function
using namespace tessera::compiler;  // NOLINT

namespace {

void mapOnto(const v1::Target& target, size_t turn) {
  static const loopnest::Nest product =
      loopnest::parse("p", "O[n, i, j] += A[n, i + k, l] * B[l, k, j]", {2, 100, 7, 3, 30}).value();
  const auto instructions = instructionsOf(target);
  size_t index = 0;
  for (const v1::Intrinsic& described : instructions) {
    // A valid instruction describes a loop nest.
    const auto instruction = intrinsic::nestOf(described);
    if (!instruction.ok()) __builtin_trap();
    // Tiling and simulation take longer than everything else together, so each input does one instruction, chosen by
    // its length.
    if (index++ != turn % instructions.size()) continue;
    const auto mappings = intrinsic::enumerateMappings(product, *instruction, {.any_order = true, .most = 2});
    for (const auto& matching : mappings.matchings) {
      const auto mapping = intrinsic::physicalMapping(mappings.software, described, matching, target);
      if (!mapping.ok()) continue;
      (void)intrinsic::print(intrinsic::layoutsOf(mappings.software, described, matching, *mapping));
      (void)intrinsic::print(intrinsic::paddingOf(mappings.software, described, *mapping, target));
      const auto choice = intrinsic::tiled(mappings.software, described, matching, target);
      if (!choice.ok()) continue;
      const auto program = simulator::lower(*choice, target);
      if (!program.ok()) continue;
      // A program that fits has a valid layout: no buffer is outside of its memory or overlaps another one.
      if (!simulator::checkBuffers(*program).ok()) __builtin_trap();
      (void)simulator::print(*program);
      (void)simulator::timelineOf(*program);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // Faulty descriptions reach the validator over the wire as well, without the text parser.
  v1::Target unchecked;
  if (unchecked.ParseFromString(text)) (void)statusOfProblems(unchecked.name(), validateTarget(unchecked));
  if (const auto positioned = parseTargetWithPositions(text); positioned.ok()) {
    for (const auto& problem : validateTarget(positioned->target)) {
      if (positioned->at(problem.field()).line < 1) __builtin_trap();
    }
  }
  const auto target = parseTarget(text);
  if (!target.ok()) return 0;
  std::string printed;
  if (!google::protobuf::TextFormat::PrintToString(canonicalTarget(*target), &printed)) __builtin_trap();
  const auto again = parseTarget(printed);
  if (!again.ok() || targetHash(*again) != targetHash(*target)) __builtin_trap();
  if (!differencesOf(canonicalTarget(*target), *again).empty()) __builtin_trap();
  mapOnto(*target, size);
  return 0;
}
