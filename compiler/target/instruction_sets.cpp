#include "compiler/target/instruction_sets.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/str_join.h"
#include "compiler/target/builtin_texts.h"

namespace tessera::compiler {
const std::vector<v1::InstructionSet>& builtinInstructionSets() {
  static const std::vector<v1::InstructionSet> sets = [] {
    std::vector<v1::InstructionSet> parsed;
    for (std::string_view text : builtinInstructionTexts()) {
      // A broken description aborts the process: instruction_sets_test parses all of them.
      if (!google::protobuf::TextFormat::ParseFromString(std::string(text), &parsed.emplace_back())) std::abort();
      for (v1::Intrinsic& intrinsic : *parsed.back().mutable_intrinsics()) {
        if (intrinsic.features().empty()) *intrinsic.mutable_features() = parsed.back().features();
      }
    }
    std::sort(parsed.begin(), parsed.end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
    return parsed;
  }();
  return sets;
}

const v1::InstructionSet* findInstructionSet(const std::string& name) {
  for (const v1::InstructionSet& set : builtinInstructionSets()) {
    if (set.name() == name) return &set;
  }
  return nullptr;
}

std::string instructionSetNames() {
  return absl::StrJoin(builtinInstructionSets(), ", ",
                       [](std::string* out, const v1::InstructionSet& set) { *out += set.name(); });
}

std::vector<const v1::InstructionSet*> instructionSetsOf(const v1::Target& target) {
  const std::set<std::string> features(target.code().features().begin(), target.code().features().end());
  const std::set<std::string> named(target.instruction_sets().begin(), target.instruction_sets().end());
  std::vector<const v1::InstructionSet*> sets;
  for (const v1::InstructionSet& set : builtinInstructionSets()) {
    const bool family = set.family() == target.family();
    const bool required =
        !set.features().empty() && std::all_of(set.features().begin(), set.features().end(),
                                               [&](const std::string& feature) { return features.contains(feature); });
    const bool cpu = std::find(set.cpus().begin(), set.cpus().end(), target.code().cpu()) != set.cpus().end();
    if ((family && (required || cpu)) || named.contains(set.name())) sets.push_back(&set);
  }
  return sets;
}

v1::Intrinsic completed(v1::Intrinsic described, v1::Intrinsic own) {
  // The shape and meaning of the instruction are the set's; a chip may change times, transfers and features only.
  own.clear_iterations();
  own.clear_operands();
  own.clear_bounds();
  if (own.features_size() > 0) described.clear_features();
  if (own.transfers_size() > 0) described.clear_transfers();
  if (own.has_emission()) described.clear_emission();
  described.MergeFrom(own);
  return described;
}

std::vector<v1::Intrinsic> instructionsOf(const v1::Target& target) {
  std::vector<v1::Intrinsic> all;
  std::set<std::string> described;
  for (const v1::InstructionSet* set : instructionSetsOf(target)) {
    for (const v1::Intrinsic& intrinsic : set->intrinsics()) {
      const auto own = std::find_if(target.intrinsics().begin(), target.intrinsics().end(),
                                    [&](const v1::Intrinsic& entry) { return entry.name() == intrinsic.name(); });
      all.push_back(own == target.intrinsics().end() ? intrinsic : completed(intrinsic, *own));
      described.insert(intrinsic.name());
    }
  }
  for (const v1::Intrinsic& own : target.intrinsics()) {
    if (!described.contains(own.name())) all.push_back(own);
  }
  return all;
}

std::vector<std::string> featuresToCheckAtRunTime(const v1::Target& target, const v1::Intrinsic& intrinsic) {
  std::vector<std::string> missing;
  for (const std::string& feature : intrinsic.features()) {
    const auto& required = target.code().features();
    if (std::find(required.begin(), required.end(), feature) == required.end()) missing.push_back(feature);
  }
  return missing;
}

}  // namespace tessera::compiler
