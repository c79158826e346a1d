#include "compiler/target/host.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Chips by identity: x86-64 family and model as CPUID reports them, AArch64 part number as model. For models not
/// listed, features decide (candidatesFor).
struct KnownChip {
  const char* vendor;
  unsigned family;
  unsigned first_model, last_model;
  unsigned first_stepping;
  const char* target;
};
constexpr KnownChip kChips[] = {
    {"GenuineIntel", 6, 0x3c, 0x3c, 0, "haswell"},        {"GenuineIntel", 6, 0x3f, 0x3f, 0, "haswell"},
    {"GenuineIntel", 6, 0x45, 0x47, 0, "haswell"},        {"GenuineIntel", 6, 0x4f, 0x4f, 0, "haswell"},
    {"GenuineIntel", 6, 0x56, 0x56, 0, "haswell"},        {"GenuineIntel", 6, 0x55, 0x55, 5, "cascadelake"},
    {"GenuineIntel", 6, 0x55, 0x55, 0, "skylake-avx512"}, {"GenuineIntel", 6, 0x6a, 0x6a, 0, "icelake-server"},
    {"GenuineIntel", 6, 0x6c, 0x6c, 0, "icelake-server"}, {"GenuineIntel", 6, 0x8f, 0x8f, 0, "sapphirerapids"},
    {"GenuineIntel", 6, 0x97, 0x97, 0, "alderlake"},      {"GenuineIntel", 6, 0x9a, 0x9a, 0, "alderlake"},
    {"GenuineIntel", 6, 0xcf, 0xcf, 0, "sapphirerapids"}, {"AuthenticAMD", 25, 0x10, 0x1f, 0, "znver4"},
    {"AuthenticAMD", 25, 0x60, 0xaf, 0, "znver4"},        {"AuthenticAMD", 26, 0x00, 0xff, 0, "znver5"},
    {"0x41", 0, 0xd0c, 0xd0c, 0, "neoverse-n1"},          {"0x41", 0, 0xd40, 0xd40, 0, "neoverse-v1"},
    {"0x41", 0, 0xd4f, 0xd4f, 0, "neoverse-v2"},
};
/// Architecture levels.
constexpr const char* kLevels[] = {"x86-64-v4", "x86-64-v3", "aarch64"};

std::string readLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string cpuModel(const std::string& cpuinfo) {
  std::ifstream file(cpuinfo);
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() == 2) return std::string(absl::StripAsciiWhitespace(parts[1]));
  }
  return "";
}

/// "48K" -> 49152; 0 when it is no size.
int64_t cacheBytes(absl::string_view text) {
  int64_t unit = 1;
  if (absl::ConsumeSuffix(&text, "K")) unit = 1024;
  if (absl::ConsumeSuffix(&text, "M")) unit = 1024 * 1024;
  int64_t value = 0;
  constexpr int64_t kMaxValue = int64_t{1} << 30;
  return absl::SimpleAtoi(text, &value) && value > 0 && value <= kMaxValue ? value * unit : 0;
}

/// "0-3,8" -> 5.
int listedCpus(const std::string& list) {
  int count = 0;
  for (absl::string_view range : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last) || last < first) return 0;
    count += last - first + 1;
  }
  return count;
}

/// Whether this system is a guest of a hypervisor.
bool isVirtual(const std::string& cpuinfo) {
  std::ifstream file(cpuinfo);
  for (std::string line; std::getline(file, line);)
    if (absl::StartsWith(line, "flags")) return absl::StrContains(line + " ", " hypervisor ");
  return false;
}

/// Replaces the built-in chip's figures by what the kernel reports of CPU 0's data caches. A virtual machine sees only
/// its own cores among those that share a cache, and not the load on sibling threads: most report one thread per core,
/// which is not how the chip behaves.
void readCaches(const HostPaths& paths, v1::Target& target) {
  const std::string& cpus = paths.cpus;
  const bool alone = !isVirtual(paths.cpuinfo);
  // A level that only the threads of one core share belongs to the core.
  const int threads = listedCpus(readLine(cpus + "/cpu0/topology/thread_siblings_list"));
  if (threads > 1 || (threads > 0 && alone))
    for (v1::ComputeUnit& unit : *target.mutable_units()) unit.set_threads(threads);
  constexpr int kMaxIndex = 16;
  for (int i = 0; i < kMaxIndex; ++i) {
    const std::string folder = absl::StrCat(cpus, "/cpu0/cache/index", i, "/");
    const std::string type = readLine(folder + "type");
    if (type.empty()) break;
    const int64_t bytes = cacheBytes(readLine(folder + "size"));
    if (type == "Instruction" || bytes == 0) continue;
    const std::string name = "L" + readLine(folder + "level");
    for (v1::MemoryLevel& level : *target.mutable_memory()) {
      if (level.name() != name) continue;
      level.set_capacity_bytes(bytes);
      int value = 0;
      if (absl::SimpleAtoi(readLine(folder + "coherency_line_size"), &value) && value > 0) level.set_line_bytes(value);
      if (absl::SimpleAtoi(readLine(folder + "ways_of_associativity"), &value)) level.set_associativity(value);
      const int listed = listedCpus(readLine(folder + "shared_cpu_list"));
      if (const int sharing = (listed + std::max(1, threads) - 1) / std::max(1, threads); sharing > 0)
        level.set_shared_by(alone ? sharing : std::max(sharing, level.shared_by()));
    }
  }
}

bool isAmx(const std::string& feature) { return absl::StartsWith(feature, "amx-"); }

std::optional<v1::Target> closestToThis() { return closestBuiltin(hostIdentity(), hostFeatures()); }

int onlineCores() { return std::max(1u, std::thread::hardware_concurrency()); }

/// A target that may describe a chip, and the reason for choosing it.
struct Candidate {
  const v1::Target* target;
  std::string how;
};

/// The chip of this model first; then all chips of its vendor and the architecture's levels, those that require most
/// features first, levels before chips of equal count. A model that is newer than the table, or invented by a
/// hypervisor, usually has the features of the vendor's latest chip, or most of them.
std::vector<Candidate> candidatesFor(const CpuIdentity& id) {
  std::vector<Candidate> candidates;
  std::multimap<int, Candidate, std::greater<>> others;  // by number of features
  const auto add = [&](const v1::Target* target, std::string how) {
    others.insert({target->code().features_size(), {target, std::move(how)}});
  };
  for (const char* level : kLevels) add(findBuiltinTarget(level), "");
  for (const KnownChip& chip : kChips) {
    if (id.vendor != std::string_view(chip.vendor)) continue;
    const v1::Target* target = findBuiltinTarget(chip.target);
    if (id.family == chip.family && id.model >= chip.first_model && id.model <= chip.last_model &&
        id.stepping >= chip.first_stepping)
      candidates.push_back({target, ""});
    add(target, " by its features");
  }
  for (auto& [features, candidate] : others) candidates.push_back(std::move(candidate));
  return candidates;
}

}  // namespace

std::optional<v1::Target> closestBuiltin(const CpuIdentity& id, const std::vector<std::string_view>& features) {
  const std::set<std::string_view> present(features.begin(), features.end());
  for (const auto& [builtin, how] : candidatesFor(id)) {
    if (!absl::StartsWith(builtin->code().triple(), std::string(hostArchitecture()) + "-")) continue;
    v1::Target target = *builtin;
    // Only features that this machine has are kept, in the description's order.
    target.mutable_code()->clear_features();
    std::vector<std::string> missing;
    for (const std::string& feature : builtin->code().features()) {
      if (present.contains(feature)) {
        target.mutable_code()->add_features(feature);
      } else {
        missing.push_back(feature);
      }
    }
    // Code can do without the matrix unit, which an operating system or hypervisor may withhold; any other missing
    // feature excludes the candidate.
    if (!std::all_of(missing.begin(), missing.end(), isAmx)) continue;
    target.set_summary(builtin->name() + how);
    if (!missing.empty()) absl::StrAppend(target.mutable_summary(), " without ", absl::StrJoin(missing, " "));
    return target;
  }
  return std::nullopt;
}

v1::HostInfo hostInfo(const HostPaths& paths) {
  v1::HostInfo info;
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) == 0) info.set_hostname(name);
  info.set_triple(std::string(hostArchitecture()) + "-unknown-linux-gnu");
  if (const auto closest = closestToThis()) info.set_cpu(closest->code().cpu());
  for (std::string_view feature : hostFeatures()) info.add_features(std::string(feature));
  info.set_cores(onlineCores());
  info.set_memory_bytes(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE));
  info.set_cpu_model(cpuModel(paths.cpuinfo));
  return info;
}

absl::StatusOr<v1::Target> detectHostTarget(const HostPaths& paths) {
  const auto closest = closestToThis();
  if (!closest) {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
    failure.set_message(absl::StrCat("this machine (", cpuModel(paths.cpuinfo), ") is below every built-in target"));
    failure.set_found(absl::StrJoin(hostInfo(paths).features(), " "));
    failure.set_accepted("x86-64 with AVX2, FMA and BMI2, or AArch64 with FP16 and dot product");
    failure.set_fix(absl::StrCat("name the target to compile for instead of `host`",
                                 hostFeaturesAreLimited() ? absl::StrCat(", or unset ", kHostFeaturesVariable) : ""));
    return failureStatus(failure);
  }
  v1::Target target = *closest;
  target.set_name("host");
  target.set_summary(absl::StrCat(cpuModel(paths.cpuinfo), ", as ", closest->summary()));
  if (hostFeaturesAreLimited()) absl::StrAppend(target.mutable_summary(), ", limited by ", kHostFeaturesVariable);
  readCaches(paths, target);
  // The kernel counts each hardware thread as a CPU.
  int cores = onlineCores();
  for (v1::ComputeUnit& unit : *target.mutable_units()) {
    cores = std::max(1, onlineCores() / std::max(1, unit.threads()));
    unit.set_count(cores);
  }
  target.mutable_memory()->rbegin()->set_shared_by(cores);
  TESSERA_RETURN_IF_ERROR(statusOfProblems("host", validateTarget(target)));
  return target;
}

std::vector<v1::Failure> hostProblems(const v1::CodeForm& code, const v1::HostInfo& host) {
  const auto architecture = [](const std::string& triple) { return triple.substr(0, triple.find('-')); };
  std::vector<v1::Failure> problems;
  const auto add = [&](std::string message, std::string found, std::string accepted) {
    v1::Failure& failure = problems.emplace_back();
    failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
    failure.set_message(std::move(message));
    failure.set_found(std::move(found));
    failure.set_accepted(std::move(accepted));
    failure.set_fix("compile for this host: `tessera compile MODEL --target host`");
  };
  if (architecture(code.triple()) != architecture(host.triple())) {
    add("the artifact is for another architecture", host.triple(), code.triple());
    return problems;
  }
  const std::set<std::string> present(host.features().begin(), host.features().end());
  std::vector<std::string> missing;
  for (const std::string& feature : code.features()) {
    if (!present.contains(feature)) missing.push_back(feature);
  }
  if (!missing.empty()) {
    add(absl::StrCat("the host lacks features the artifact needs: ", absl::StrJoin(missing, " ")),
        absl::StrJoin(host.features(), " "), absl::StrJoin(code.features(), " "));
  }
  return problems;
}

}  // namespace tessera::compiler
