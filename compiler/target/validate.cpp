#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/problems.h"
#include "compiler/target/target.h"
#include "compiler/target/validate_hierarchy.h"
#include "compiler/target/validate_intrinsic.h"
#include "compiler/target/validate_logic.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kMaxCapacityBytes = int64_t{1} << 50;

/// Requirements of a family on a description.
struct FamilyRules {
  v1::Target::Family family;
  const char* triple_prefix;  // null: no machine code
  bool has_registers;
};
constexpr FamilyRules kFamilies[] = {
    {v1::Target::X86_64, "x86_64-", true},  {v1::Target::AARCH64, "aarch64-", true},
    {v1::Target::NVPTX, "nvptx64-", false}, {v1::Target::SPATIAL, nullptr, false},
    {v1::Target::HLS, nullptr, false},      {v1::Target::OPENCL, nullptr, false},
};

/// Cost parameters by which plans divide.
const std::set<std::string> kDivisors = {"peak_share",           "stream_bandwidth_share", "planes_share",
                                         "strided_planes_share", "window_planes_share",    "sliding_planes_share",
                                         "sliding_share",        "innermost_share",        "min_slice_iterations"};

class Validator : Problems {
 public:
  explicit Validator(const v1::Target& target) : target_(target) {}

  std::vector<v1::TargetProblem> run() {
    checkName("name", target_.name(), "lower-case letters, digits, '-', '.' and '_', starting with a letter or digit",
              [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || absl::StrContains("-._", c); });
    const auto* rules = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                     [&](const FamilyRules& r) { return r.family == target_.family(); });
    if (rules == std::end(kFamilies)) {
      add("family", "is not set to a known family; accepted: X86_64, AARCH64, NVPTX, SPATIAL, HLS, OPENCL");
    } else {
      code(*rules);
      registers(*rules);
    }
    memory();
    units();
    if (target_.memory_size() <= kMaxEntries && target_.units_size() <= kMaxEntries) validateHierarchy(target_, *this);
    costParameters();
    intrinsics();
    instructionSets();
    validateLogic(target_, *this);
    return take();
  }

 private:
  void code(const FamilyRules& rules) {
    const v1::CodeForm& code = target_.code();
    if (!rules.triple_prefix) return;
    if (!absl::StartsWith(code.triple(), rules.triple_prefix)) {
      add("code.triple",
          absl::StrCat("'", absl::CHexEscape(code.triple()), "' does not belong to family ",
                       v1::Target::Family_Name(rules.family), "; it must start with '", rules.triple_prefix, "'"));
    } else {
      checkToken("code.triple", code.triple());
    }
    checkToken("code.cpu", code.cpu());
    if (!checkCount("code.features", code.features_size())) return;
    for (int i = 0; i < code.features_size(); ++i) checkToken(absl::StrCat("code.features[", i, "]"), code.features(i));
  }

  void registers(const FamilyRules& rules) {
    if (!rules.has_registers) return;
    constexpr int kMinBits = 64, kMaxBits = 2048;  // MMX to the widest SVE
    constexpr int kMinCount = 8, kMaxCount = 256;
    checkRange("registers.vector_bits", target_.registers().vector_bits(), kMinBits, kMaxBits);
    checkPowerOfTwo("registers.vector_bits", target_.registers().vector_bits());
    checkRange("registers.vector_count", target_.registers().vector_count(), kMinCount, kMaxCount);
  }

  void memory() {
    if (target_.memory().empty()) return add("memory", "has no level; give at least one, innermost first");
    if (!checkCount("memory", target_.memory_size())) return;
    std::set<std::string> names;
    int64_t inner = 0;  // capacity of the next inner level
    for (int i = 0; i < target_.memory_size(); ++i) {
      const v1::MemoryLevel& level = target_.memory(i);
      const std::string at = absl::StrCat("memory[", i, "].");
      checkToken(at + "name", level.name());
      if (!names.insert(level.name()).second) {
        add(at + "name", absl::StrCat("'", absl::CHexEscape(level.name()), "' is the name of an inner level as well"));
      }
      // The outermost level may omit its size: it is that of the machine.
      const bool outermost = i + 1 == target_.memory_size();
      checkRange(at + "capacity_bytes", level.capacity_bytes(), outermost ? 0 : 1, kMaxCapacityBytes);
      if (level.peer_of_inner() && i == 0) add(at + "peer_of_inner", "is set, but no level is before it");
      if (!level.peer_of_inner() && level.capacity_bytes() > 0 && level.capacity_bytes() <= inner) {
        add(at + "capacity_bytes", absl::StrCat("is ", level.capacity_bytes(), ", no more than the inner level's ",
                                                inner, "; levels are listed innermost first"));
      }
      // The maximum, since a level beside the inner one may be smaller than it.
      inner = std::max(inner, level.capacity_bytes());
      checkPositive(at + "bandwidth_bytes_per_cycle", level.bandwidth_bytes_per_cycle());
      checkNonNegative(at + "write_bandwidth_bytes_per_cycle", level.write_bandwidth_bytes_per_cycle());
      if (level.line_bytes() != 0) {
        checkPowerOfTwo(at + "line_bytes", level.line_bytes());
        checkRange(at + "line_bytes", level.line_bytes(), 8, 1 << 20);  // an element at least
      }
      if (level.alignment_bytes() != 0) checkPowerOfTwo(at + "alignment_bytes", level.alignment_bytes());
      checkRange(at + "associativity", level.associativity(), 0, 1024);
      checkRange(at + "banks", level.banks(), 0, 1 << 20);
      checkNonNegative(at + "energy_pj_per_byte", level.energy_pj_per_byte());
      checkNonNegative(at + "write_energy_pj_per_byte", level.write_energy_pj_per_byte());
      checkNonNegative(at + "sustained_bytes_per_cycle", level.sustained_bytes_per_cycle());
      checkNonNegative(at + "latency_cycles", level.latency_cycles());
      if (!level.has_filled_by()) continue;
      checkAssembly(at + "filled_by.assembly", level.filled_by().assembly(), *this);
      checkAssembly(at + "filled_by.commit", level.filled_by().commit(), *this);
      checkAssembly(at + "filled_by.wait", level.filled_by().wait(), *this);
      checkCount(at + "filled_by.bytes", level.filled_by().bytes_size());
    }
  }

  void units() {
    if (target_.units().empty()) return add("units", "has no compute unit; give at least one");
    if (!checkCount("units", target_.units_size())) return;
    for (int i = 0; i < target_.units_size(); ++i) {
      const v1::ComputeUnit& unit = target_.units(i);
      const std::string at = absl::StrCat("units[", i, "].");
      checkToken(at + "name", unit.name());
      checkRange(at + "count", unit.count(), 1, 1 << 20);
      checkPositive(at + "frequency_ghz", unit.frequency_ghz());
      checkRange(at + "threads", unit.threads(), 0, 1 << 10);
      checkRange(at + "instructions_per_cycle", unit.instructions_per_cycle(), 0, 1 << 10);
      checkRange(at + "loads_per_cycle", unit.loads_per_cycle(), 0, 1 << 10);
    }
  }

  // Checks every cost parameter according to its name: shares are between 0 and 1, the others at least 0; divisors must
  // be positive.
  void costParameters() {
    if (target_.has_cost_parameters()) costParameters("cost_parameters.", target_.cost_parameters());
  }
  void costParameters(const std::string& at, const google::protobuf::Message& group) {
    const google::protobuf::Reflection& reflection = *group.GetReflection();
    std::vector<const google::protobuf::FieldDescriptor*> set;
    reflection.ListFields(group, &set);
    for (const google::protobuf::FieldDescriptor* field : set) {
      const std::string name(field->name());
      if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
        costParameters(absl::StrCat(at, name, "."), reflection.GetMessage(group, field));
      } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64) {
        checkRange(at + name, reflection.GetInt64(group, field), 1, 1 << 20);
      } else if (const double value = reflection.GetDouble(group, field); absl::EndsWith(name, "_share") && value > 1) {
        add(at + name, absl::StrCat("is ", value, ", a share is at most 1"));
      } else if (!std::isfinite(value) || value < 0 || (value == 0 && kDivisors.contains(name))) {
        add(at + name,
            absl::StrCat("is ", value, "; it must be ", kDivisors.contains(name) ? "above 0" : "0 or above"));
      }
    }
  }

  void intrinsics() {
    if (!checkCount("intrinsics", target_.intrinsics_size())) return;
    std::set<std::string> known;
    for (int i = 0; i < target_.intrinsics_size(); ++i) {
      const v1::Intrinsic& intrinsic = target_.intrinsics(i);
      const std::string at = absl::StrCat("intrinsics[", i, "].");
      if (!known.insert(intrinsic.name()).second) {
        add(at + "name", absl::StrCat("'", absl::CHexEscape(intrinsic.name()), "' is the name of an earlier one too"));
      }
      const v1::Intrinsic* described = describedIn(intrinsic.name());
      if (described) validateOverride(at, intrinsic, *described, *this);
      // An override states only what differs, so it is validated together with what it changes.
      const v1::Intrinsic whole = described ? completed(*described, intrinsic) : intrinsic;
      validateIntrinsic(at, whole, memories(), *this);
      if (!isUnit(whole.unit())) {
        add(at + "unit", absl::StrCat("'", absl::CHexEscape(whole.unit()), "' is no unit of this target"));
      }
    }
  }

  /// Whether an instruction may name this unit; empty: the first one.
  bool isUnit(const std::string& name) const {
    return name.empty() || target_.units().empty() ||
           std::ranges::any_of(target_.units(), [&](const v1::ComputeUnit& unit) { return unit.name() == name; });
  }

  // The memories that the named sets use must exist.
  void instructionSets() {
    if (!checkCount("instruction_sets", target_.instruction_sets_size())) return;
    for (int i = 0; i < target_.instruction_sets_size(); ++i) {
      const std::string at = absl::StrCat("instruction_sets[", i, "]");
      const v1::InstructionSet* set = findInstructionSet(target_.instruction_sets(i));
      if (!set) {
        add(at, absl::StrCat("'", absl::CHexEscape(target_.instruction_sets(i)),
                             "' is none; accepted: ", instructionSetNames()));
        continue;
      }
      for (const v1::Intrinsic& intrinsic : set->intrinsics()) {
        for (const std::string& name : memoriesOf(intrinsic)) {
          if (memories().contains(name)) continue;
          add(at, absl::StrCat("'", set->name(), "' has operands in '", name, "', which is no memory of this target"));
        }
        const auto own = std::ranges::find(target_.intrinsics(), intrinsic.name(), &v1::Intrinsic::name);
        const std::string& unit =
            own == target_.intrinsics().end() || own->unit().empty() ? intrinsic.unit() : own->unit();
        if (!isUnit(unit)) {
          add(at, absl::StrCat("'", set->name(), "' runs on unit '", absl::CHexEscape(unit),
                               "', which this target does not have"));
        }
      }
    }
  }

  const v1::Intrinsic* describedIn(const std::string& name) const {
    for (const v1::InstructionSet* set : instructionSetsOf(target_)) {
      for (const v1::Intrinsic& intrinsic : set->intrinsics()) {
        if (intrinsic.name() == name) return &intrinsic;
      }
    }
    return nullptr;
  }

  std::set<std::string> memories() const {
    std::set<std::string> names = {kRegisters, kAnyMemory};
    for (const v1::MemoryLevel& level : target_.memory()) names.insert(level.name());
    return names;
  }

  const v1::Target& target_;
};

}  // namespace

std::vector<v1::TargetProblem> validateTarget(const v1::Target& target) { return Validator(target).run(); }

}  // namespace tessera::compiler
