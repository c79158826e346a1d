#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/target/target.h"

namespace tessera::compiler {
namespace {

constexpr int kMaxNameLength = 63;
constexpr int kMaxEntries = 256;  // of any repeated field
constexpr int64_t kMaxCapacityBytes = int64_t{1} << 50;
constexpr int64_t kMaxExtent = int64_t{1} << 24;

/// What a family asks of a description.
struct FamilyRules {
  v1::Target::Family family;
  const char* triple_prefix;  // null: no machine code
  bool has_registers;
};
constexpr FamilyRules kFamilies[] = {
    {v1::Target::X86_64, "x86_64-", true},  {v1::Target::AARCH64, "aarch64-", true},
    {v1::Target::NVPTX, "nvptx64-", false}, {v1::Target::SPATIAL, nullptr, false},
    {v1::Target::HLS, nullptr, false},
};

bool isPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

class Validator {
 public:
  explicit Validator(const v1::Target& target) : target_(target) {}

  std::vector<v1::TargetProblem> run() {
    checkName("name", target_.name(), "lower-case letters, digits, '-', '.' and '_', starting with a letter or digit",
              [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || absl::StrContains("-._", c); });
    const auto* rules = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                     [&](const FamilyRules& r) { return r.family == target_.family(); });
    if (rules == std::end(kFamilies)) {
      add("family", "is not set to a known family; accepted: X86_64, AARCH64, NVPTX, SPATIAL, HLS");
    } else {
      code(*rules);
      registers(*rules);
    }
    memory();
    units();
    intrinsics();
    return std::move(problems_);
  }

 private:
  void add(std::string field, std::string message) {
    v1::TargetProblem& problem = problems_.emplace_back();
    problem.set_field(std::move(field));
    problem.set_message(std::move(message));
  }

  template <typename Predicate>
  void checkName(const std::string& field, const std::string& name, const char* accepted, Predicate legal) {
    if (name.empty()) return add(field, "is empty");
    if (name.size() > kMaxNameLength) {
      return add(field, absl::StrCat("has ", name.size(), " characters; at most ", kMaxNameLength, " are accepted"));
    }
    if (!std::all_of(name.begin(), name.end(), legal) || !absl::ascii_isalnum(name[0])) {
      add(field, absl::StrCat("'", absl::CHexEscape(name), "' is not accepted: use ", accepted));
    }
  }

  /// Names that end up in LLVM's options: a stray ',' or ' ' there would change their meaning.
  void checkToken(const std::string& field, const std::string& name) {
    checkName(field, name, "letters, digits, '-', '.' and '_'",
              [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("-._", c); });
  }

  void checkRange(const std::string& field, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
      add(field, absl::StrCat("is ", value, "; accepted: ", low, " to ", high));
    }
  }
  void checkPositive(const std::string& field, double value) {
    if (!std::isfinite(value) || value <= 0) add(field, absl::StrCat("is ", value, "; it must be above 0"));
  }
  void checkNonNegative(const std::string& field, double value) {
    if (!std::isfinite(value) || value < 0) add(field, absl::StrCat("is ", value, "; it must be 0 (unknown) or above"));
  }
  void checkPowerOfTwo(const std::string& field, int64_t value) {
    if (!isPowerOfTwo(value)) add(field, absl::StrCat("is ", value, "; it must be a power of two"));
  }
  bool checkCount(const std::string& field, int count) {
    if (count <= kMaxEntries) return true;
    add(field, absl::StrCat("has ", count, " entries; at most ", kMaxEntries, " are accepted"));
    return false;
  }

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
    int64_t inner = 0;  // capacity of the next smaller level
    for (int i = 0; i < target_.memory_size(); ++i) {
      const v1::MemoryLevel& level = target_.memory(i);
      const std::string at = absl::StrCat("memory[", i, "].");
      checkToken(at + "name", level.name());
      if (!names.insert(level.name()).second) {
        add(at + "name", absl::StrCat("'", absl::CHexEscape(level.name()), "' is the name of an inner level as well"));
      }
      // The outermost level may be as large as the machine has it.
      const bool outermost = i + 1 == target_.memory_size();
      checkRange(at + "capacity_bytes", level.capacity_bytes(), outermost ? 0 : 1, kMaxCapacityBytes);
      if (level.capacity_bytes() > 0 && level.capacity_bytes() <= inner) {
        add(at + "capacity_bytes", absl::StrCat("is ", level.capacity_bytes(), ", no more than the inner level's ",
                                                inner, "; levels are listed innermost first"));
      }
      inner = std::max(inner, level.capacity_bytes());
      checkPositive(at + "bandwidth_bytes_per_cycle", level.bandwidth_bytes_per_cycle());
      if (level.line_bytes() != 0) checkPowerOfTwo(at + "line_bytes", level.line_bytes());
      if (level.alignment_bytes() != 0) checkPowerOfTwo(at + "alignment_bytes", level.alignment_bytes());
      checkRange(at + "associativity", level.associativity(), 0, 1024);
      checkRange(at + "shared_by", level.shared_by(), 1, 1 << 20);
      checkRange(at + "banks", level.banks(), 0, 1 << 20);
      checkNonNegative(at + "energy_pj_per_byte", level.energy_pj_per_byte());
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
      checkRange(at + "lanes", unit.lanes(), 1, 1 << 20);
      checkPositive(at + "frequency_ghz", unit.frequency_ghz());
      checkPositive(at + "ops_per_cycle", unit.ops_per_cycle());
    }
  }

  void intrinsics() {
    if (!checkCount("intrinsics", target_.intrinsics_size())) return;
    for (int i = 0; i < target_.intrinsics_size(); ++i) {
      intrinsic(absl::StrCat("intrinsics[", i, "]."), target_.intrinsics(i));
    }
  }

  void intrinsic(const std::string& at, const v1::Intrinsic& intrinsic) {
    checkToken(at + "name", intrinsic.name());
    if (intrinsic.emit().empty()) add(at + "emit", "is empty; name an LLVM intrinsic or an MLIR operation");
    checkRange(at + "latency_cycles", intrinsic.latency_cycles(), 0, 1 << 20);
    if (!checkCount(at + "iterations", intrinsic.iterations_size())) return;
    if (!checkCount(at + "operands", intrinsic.operands_size())) return;
    std::set<std::string> iterations;
    for (int i = 0; i < intrinsic.iterations_size(); ++i) {
      const std::string here = absl::StrCat(at, "iterations[", i, "].");
      checkToken(here + "name", intrinsic.iterations(i).name());
      checkRange(here + "extent", intrinsic.iterations(i).extent(), 1, kMaxExtent);
      if (!iterations.insert(intrinsic.iterations(i).name()).second) add(here + "name", "is used twice");
    }
    if (intrinsic.operands_size() < 2) add(at + "operands", "needs a destination and at least one source");
    for (int i = 0; i < intrinsic.operands_size(); ++i) {
      const v1::Intrinsic::Operand& operand = intrinsic.operands(i);
      const std::string here = absl::StrCat(at, "operands[", i, "].");
      checkToken(here + "name", operand.name());
      if (!v1::DataType_IsValid(operand.dtype()) || operand.dtype() == v1::DATA_TYPE_UNSPECIFIED) {
        add(here + "dtype", "is not a known element type");
      }
      if (!checkCount(here + "subscripts", operand.subscripts_size())) continue;
      for (int s = 0; s < operand.subscripts_size(); ++s) {
        if (!iterations.contains(operand.subscripts(s))) {
          add(absl::StrCat(here, "subscripts[", s, "]"),
              absl::StrCat("'", absl::CHexEscape(operand.subscripts(s)), "' is no iteration of this intrinsic"));
        }
      }
    }
  }

  const v1::Target& target_;
  std::vector<v1::TargetProblem> problems_;
};

}  // namespace

std::vector<v1::TargetProblem> validateTarget(const v1::Target& target) { return Validator(target).run(); }

}  // namespace tessera::compiler
