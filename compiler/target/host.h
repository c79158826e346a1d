#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/target/cpu_features.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/failure.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// Where the host's description is read from; tests give folders of their own.
struct HostPaths {
  std::string cpuinfo = "/proc/cpuinfo";
  std::string cpus = "/sys/devices/system/cpu";
};

/// The built-in target that fits a chip of this architecture best: by its identity, else the one of its maker or the
/// architecture's level that takes most of the features that it has. Features of AMX, which a virtual machine may hide,
/// are left out of the target, all others it needs. Its summary is its name, whether features alone decided, and what
/// was left out. Nothing where none fits.
std::optional<v1::Target> closestBuiltin(const CpuIdentity& id, const std::vector<std::string_view>& features);

/// This machine as a HostInfo. Never fails: what cannot be read stays empty or 0. Asks for what features are given on
/// request alone, as detectHostTarget() does (hostFeature()): not behind a filter of system calls.
v1::HostInfo hostInfo(const HostPaths& paths = {});

/// This machine as the target "host": the built-in target that closestBuiltin() finds, with the cache sizes and core
/// count the kernel reports.
/// Fails with INCOMPATIBLE_HOST on a chip below every built-in one (x86-64 without AVX2 or FMA).
absl::StatusOr<v1::Target> detectHostTarget(const HostPaths& paths = {});

/// Why code of this form cannot run on that host, empty when it can: another architecture, or features that
/// are missing; each as INCOMPATIBLE_HOST.
std::vector<v1::Failure> hostProblems(const v1::CodeForm& code, const v1::HostInfo& host);

}  // namespace tessera::compiler
