#include "compiler/target/cpu_features.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tessera::compiler {
namespace {

#if defined(__x86_64__)

// Register state that the operating system must save before an instruction of the feature may be used: bits of XCR0
// (Intel SDM volume 1, 13.3).
constexpr uint64_t kNone = 0;
constexpr uint64_t kAvx = 0x6;      // XMM and YMM
constexpr uint64_t kAvx512 = 0xe6;  // and opmask, ZMM_Hi256, Hi16_ZMM
constexpr uint64_t kAmx = 0x60000;  // TILECFG and TILEDATA

enum Register { kEax, kEbx, kEcx, kEdx };

struct FeatureBit {
  std::string_view name;
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  int bit;
  uint64_t state;
};

// Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E. Sorted by name.
constexpr FeatureBit kFeatures[] = {
    {"aes", 1, 0, kEcx, 25, kNone},
    {"amx-bf16", 7, 0, kEdx, 22, kAmx},
    {"amx-int8", 7, 0, kEdx, 25, kAmx},
    {"amx-tile", 7, 0, kEdx, 24, kAmx},
    {"avx", 1, 0, kEcx, 28, kAvx},
    {"avx2", 7, 0, kEbx, 5, kAvx},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512},
    {"avx512bitalg", 7, 0, kEcx, 12, kAvx512},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512},
    {"avx512f", 7, 0, kEbx, 16, kAvx512},
    {"avx512fp16", 7, 0, kEdx, 23, kAvx512},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512},
    {"avx512vbmi2", 7, 0, kEcx, 6, kAvx512},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512},
    {"avx512vnni", 7, 0, kEcx, 11, kAvx512},
    {"avx512vp2intersect", 7, 0, kEdx, 8, kAvx512},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kAvx512},
    {"avxifma", 7, 1, kEax, 23, kAvx},
    {"avxvnni", 7, 1, kEax, 4, kAvx},
    {"avxvnniint8", 7, 1, kEdx, 4, kAvx},
    {"bmi", 7, 0, kEbx, 3, kNone},
    {"bmi2", 7, 0, kEbx, 8, kNone},
    {"cx16", 1, 0, kEcx, 13, kNone},
    {"f16c", 1, 0, kEcx, 29, kAvx},
    {"fma", 1, 0, kEcx, 12, kAvx},
    {"gfni", 7, 0, kEcx, 8, kNone},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kNone},
    {"movbe", 1, 0, kEcx, 22, kNone},
    {"pclmul", 1, 0, kEcx, 1, kNone},
    {"popcnt", 1, 0, kEcx, 23, kNone},
    {"sha", 7, 0, kEbx, 29, kNone},
    {"sse2", 1, 0, kEdx, 26, kNone},
    {"sse3", 1, 0, kEcx, 0, kNone},
    {"sse4.1", 1, 0, kEcx, 19, kNone},
    {"sse4.2", 1, 0, kEcx, 20, kNone},
    {"sse4a", 0x80000001, 0, kEcx, 6, kNone},
    {"ssse3", 1, 0, kEcx, 9, kNone},
    {"vaes", 7, 0, kEcx, 9, kAvx},
    {"vpclmulqdq", 7, 0, kEcx, 10, kAvx},
};

uint64_t enabledState() {
  unsigned a, b, c, d;
  constexpr unsigned kOsxsave = 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kOsxsave)) return 0;
  uint32_t low, high;
  // XGETBV with ECX = 0, without requiring -mxsave of every includer.
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

/// Linux, Documentation/arch/x86/xstate.rst: TILEDATA is the only state that must be requested. Requested once, so that
/// every answer is the same and no call is made after a filter forbids it; two concurrent first calls both request it,
/// which is harmless.
bool permitted(const FeatureBit& feature) {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  enum : int { kNotAsked, kGranted, kRefused };
  static std::atomic<int> answer = kNotAsked;
  if (!(feature.state >> kTileData & 1)) return true;
  if (answer == kNotAsked) {
    const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
    int none = kNotAsked;
    answer.compare_exchange_strong(none, granted ? kGranted : kRefused);
  }
  return answer == kGranted;
}

bool supported(const FeatureBit& feature) {
  unsigned r[4];
  // __get_cpuid_count checks the highest supported leaf, but not the highest sub-leaf of leaf 7.
  if (feature.subleaf > 0) {
    if (!__get_cpuid_count(feature.leaf, 0, &r[kEax], &r[kEbx], &r[kEcx], &r[kEdx])) return false;
    if (r[kEax] < feature.subleaf) return false;
  }
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &r[kEax], &r[kEbx], &r[kEcx], &r[kEdx])) return false;
  return (r[feature.reg] >> feature.bit & 1) && (enabledState() & feature.state) == feature.state;
}

#elif defined(__aarch64__)

struct FeatureBit {
  std::string_view name;
  int word;  // AT_HWCAP or AT_HWCAP2
  unsigned long mask;
};

// Linux, Documentation/arch/arm64/elf_hwcaps.rst. Sorted by name.
constexpr FeatureBit kFeatures[] = {
    {"aes", AT_HWCAP, HWCAP_AES},          {"bf16", AT_HWCAP2, 1ul << 14},   {"complxnum", AT_HWCAP, 1ul << 14},
    {"crc", AT_HWCAP, HWCAP_CRC32},        {"dotprod", AT_HWCAP, 1ul << 20}, {"fp-armv8", AT_HWCAP, HWCAP_FP},
    {"fullfp16", AT_HWCAP, HWCAP_ASIMDHP}, {"i8mm", AT_HWCAP2, 1ul << 13},   {"jsconv", AT_HWCAP, 1ul << 13},
    {"lse", AT_HWCAP, HWCAP_ATOMICS},      {"neon", AT_HWCAP, HWCAP_ASIMD},  {"rdm", AT_HWCAP, HWCAP_ASIMDRDM},
    {"sha2", AT_HWCAP, HWCAP_SHA2},        {"sve", AT_HWCAP, 1ul << 22},     {"sve-bitperm", AT_HWCAP2, 1ul << 4},
    {"sve2", AT_HWCAP2, 1ul << 1},
};

bool permitted(const FeatureBit&) { return true; }
bool supported(const FeatureBit& feature) { return (getauxval(feature.word) & feature.mask) == feature.mask; }

#else
#error "tessera runs on x86-64 and AArch64"
#endif

/// The variable's value; empty if it sets no limit.
std::string_view featureLimit() {
  const char* const list = std::getenv(kHostFeaturesVariable);
  return list == nullptr ? std::string_view() : list;
}

bool withinLimit(std::string_view name) {
  std::string_view list = featureLimit();
  if (list.empty()) return true;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return false;
}

FeatureState stateOf(const FeatureBit& feature) {
  if (!withinLimit(feature.name) || !supported(feature)) return FeatureState::kAbsent;
  return permitted(feature) ? FeatureState::kPresent : FeatureState::kDenied;
}

}  // namespace

bool hostFeaturesAreLimited() { return !featureLimit().empty(); }

FeatureState hostFeature(std::string_view llvm_name) {
  for (const FeatureBit& feature : kFeatures) {
    if (feature.name == llvm_name) return stateOf(feature);
  }
  return FeatureState::kUnknown;
}

std::vector<std::string_view> hostFeatures() {
  std::vector<std::string_view> names;
  for (const FeatureBit& feature : kFeatures) {
    if (stateOf(feature) == FeatureState::kPresent) names.push_back(feature.name);
  }
  return names;
}

std::string_view hostArchitecture() {
#if defined(__x86_64__)
  return "x86_64";
#else
  return "aarch64";
#endif
}

CpuIdentity hostIdentity() {
  CpuIdentity id;
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (__get_cpuid(0, &a, &b, &c, &d)) {
    std::memcpy(id.vendor, &b, 4);
    std::memcpy(id.vendor + 4, &d, 4);
    std::memcpy(id.vendor + 8, &c, 4);
  }
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    // Extended family and model count only for base family 15, and the latter for 6 as well.
    unsigned family = a >> 8 & 0xf;
    id.model = a >> 4 & 0xf;
    if (family == 6 || family == 15) id.model |= (a >> 16 & 0xf) << 4;
    id.family = family == 15 ? family + (a >> 20 & 0xff) : family;
    id.stepping = a & 0xf;
  }
#else
  if (std::FILE* file = std::fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "re")) {
    unsigned long long midr = 0;
    if (std::fscanf(file, "%llx", &midr) == 1) {
      std::snprintf(id.vendor, sizeof(id.vendor), "0x%02llx", midr >> 24 & 0xff);
      id.model = midr >> 4 & 0xfff;
      id.stepping = midr & 0xf;
    }
    std::fclose(file);
  }
#endif
  return id;
}

}  // namespace tessera::compiler
