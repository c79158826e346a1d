#include "compiler/intrinsic/simulation_check.h"

#include "absl/strings/str_cat.h"
#include "compiler/intrinsic/interpreter.h"

namespace tessera::compiler::intrinsic {
namespace {

int64_t addressOf(const Nest& software, int array, const std::vector<int64_t>& point) {
  const std::vector<int64_t> shape = shapeOf(software, software.accesses[array]);
  int64_t address = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    address = address * shape[d] + software.accesses[array].subscripts[d].at(point);
  }
  return address;
}

/// A loop along which neighbouring positions of an operand's block hold the same element; empty if none.
std::string replicated(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching) {
  const absl::StatusOr<Nest> instruction = nestOf(intrinsic);
  for (size_t loop = 0; instruction.ok() && loop < software.loops.size(); ++loop) {
    if (matching.iteration[loop] < 0 || software.loops[loop].extent < 2) continue;
    std::vector<int64_t> here(software.loops.size(), 0), next = here;
    next[loop] = 1;
    for (size_t operand = 0; operand < instruction->accesses.size(); ++operand) {
      std::vector<int64_t> place(instruction->loops.size(), 0), beside = place;
      beside[matching.iteration[loop]] = 1;
      bool moves = false;
      for (const Subscript& subscript : instruction->accesses[operand].subscripts) {
        moves = moves || subscript.at(place) != subscript.at(beside);
      }
      const int array = operand == 0 ? 0 : matching.source[operand - 1];
      if (!moves || addressOf(software, array, here) != addressOf(software, array, next)) continue;
      return absl::StrCat(software.accesses[array].name, " along ", software.loops[loop].name);
    }
  }
  return "";
}

}  // namespace

Simulated simulate(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching, uint64_t seed) {
  const absl::StatusOr<PhysicalMapping> mapping = physicalMapping(software, intrinsic, matching, v1::Target());
  if (!mapping.ok()) return {Agreement::kCannotRun, std::string(mapping.status().message())};
  const absl::StatusOr<Program> program = programOf(software, intrinsic, matching, *mapping);
  if (!program.ok()) return {Agreement::kCannotRun, std::string(program.status().message())};
  Tensors expected = randomTensors(software, seed), found = expected;
  run(software, expected);
  if (absl::Status status = run(*program, intrinsic, found); !status.ok()) {
    return {Agreement::kCannotRun, std::string(status.message())};
  }
  for (size_t i = 0; i < expected[0].size(); ++i) {
    if (expected[0][i] == found[0][i]) continue;
    return {Agreement::kDiffers, absl::StrCat("element ", i, " is ", found[0][i], ", not ", expected[0][i])};
  }
  if (std::string what = replicated(software, intrinsic, matching); !what.empty()) {
    return {Agreement::kReplicates, std::move(what)};
  }
  for (int i = 0; i < intrinsic.iterations_size(); ++i) {
    if (mapping->groups[i].loops.empty()) return {Agreement::kIdle, intrinsic.iterations(i).name()};
  }
  return {Agreement::kEqual, ""};
}

}  // namespace tessera::compiler::intrinsic
