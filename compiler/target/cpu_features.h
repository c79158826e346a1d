#pragma once

#include <string_view>
#include <vector>

/// Features of this machine's CPU under LLVM's names ("avx512f", "dotprod"). Needs libc only; allocates only where it
/// returns a vector; thread-safe.
namespace tessera::compiler {

/// The environment variable that limits this machine's description, so that tests run as on a lesser chip: a list of
/// feature names separated by commas. Features missing from the list count as absent; names that the CPU lacks or that
/// are unknown have no effect. Unset or empty: no limit. Read on every call, and only by the functions below.
inline constexpr const char* kHostFeaturesVariable = "TESSERA_HOST_FEATURES";

/// Whether the variable limits this process.
bool hostFeaturesAreLimited();

enum class FeatureState {
  kPresent,
  kAbsent,   ///< the CPU lacks it, the operating system does not save its registers, or the variable omits it
  kDenied,   ///< the kernel grants its registers on request only, and has refused
  kUnknown,  ///< not in the table for this architecture
};

/// State of one feature. x86-64: CPUID reports the feature and XCR0 reports that the operating system saves the
/// registers it uses. AArch64: the kernel's hardware capabilities. The AMX tile registers are requested from the kernel
/// once, for all threads of the process including running ones; this system call must precede any filter that forbids
/// it.
FeatureState hostFeature(std::string_view llvm_name);

/// Every feature of the table that is present, sorted.
std::vector<std::string_view> hostFeatures();

/// Architecture part of the LLVM triple of this process: "x86_64" or "aarch64".
std::string_view hostArchitecture();

/// Identifies the chip's design. x86-64: vendor string, family and model as CPUID reports them. AArch64: the
/// implementer as vendor and the part number as model, from MIDR_EL1 (0 if the kernel hides it).
struct CpuIdentity {
  char vendor[13] = {};
  unsigned family = 0;
  unsigned model = 0;
  unsigned stepping = 0;
};
CpuIdentity hostIdentity();

}  // namespace tessera::compiler
