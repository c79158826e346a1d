#pragma once

#include <string_view>
#include <vector>

/// What the CPU of this machine can do, under LLVM's names ("avx512f", "dotprod").
/// Needs libc only, allocates only where it returns a vector; thread-safe.
namespace tessera::compiler {

/// The environment variable that limits this machine's description, for tests as on a lesser chip: names of features
/// separated by commas. A feature that the list does not name counts as absent; a name that the CPU lacks, or that is
/// unknown, changes nothing. Unset or empty: no limit. Read at each question, by these functions alone.
inline constexpr const char* kHostFeaturesVariable = "TESSERA_HOST_FEATURES";

/// Whether the variable limits this process.
bool hostFeaturesAreLimited();

enum class FeatureState {
  kPresent,
  kAbsent,   ///< the CPU lacks it, the operating system does not save its registers, or the variable leaves it out
  kDenied,   ///< the kernel does not give this process its registers, which it gives on request alone
  kUnknown,  ///< not in the table for this architecture
};

/// One feature. x86-64: CPUID says the CPU has it and XCR0 says the operating system saves the registers it
/// uses. AArch64: the kernel's hardware capabilities. The tiles of AMX are asked for, once, for all threads of the
/// process, those that run already as well: a system call, to be over before a filter forbids it.
FeatureState hostFeature(std::string_view llvm_name);

/// Every feature of the table that is present, sorted.
std::vector<std::string_view> hostFeatures();

/// Architecture part of the LLVM triple this process runs as: "x86_64" or "aarch64".
std::string_view hostArchitecture();

/// Identifies the chip's design: x86-64 vendor string, family and model as CPUID displays them; AArch64
/// the implementer as vendor and the part number as model, out of MIDR_EL1 (0 where the kernel hides it).
struct CpuIdentity {
  char vendor[13] = {};
  unsigned family = 0;
  unsigned model = 0;
  unsigned stepping = 0;
};
CpuIdentity hostIdentity();

}  // namespace tessera::compiler
