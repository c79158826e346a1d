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

/// The paths from which the host's description is read; tests use folders of their own.
struct HostPaths {
  std::string cpuinfo = "/proc/cpuinfo";
  std::string cpus = "/sys/devices/system/cpu";
};

/// The built-in target that fits a chip of this architecture best: the target of its model if there is one, otherwise,
/// of the targets of its vendor and the architecture levels, the one that requires most features. The chip must have
/// all required features except those of AMX, which a virtual machine may hide: missing AMX features are removed from
/// the target. The result's summary says its name, whether it was chosen by features, and what was removed. Nothing if
/// no target fits.
std::optional<v1::Target> closestBuiltin(const CpuIdentity& id, const std::vector<std::string_view>& features);

/// This machine as a HostInfo. Never fails: unreadable fields stay empty or 0. Requests features that the kernel grants
/// on request only, as detectHostTarget() does (hostFeature()): do not call it under a system call filter.
v1::HostInfo hostInfo(const HostPaths& paths = {});

/// This machine as the target "host": the result of closestBuiltin() with the cache sizes and core count that the
/// kernel reports. Fails with INCOMPATIBLE_HOST on a chip below every built-in one (x86-64 without AVX2 or FMA).
absl::StatusOr<v1::Target> detectHostTarget(const HostPaths& paths = {});

/// The reasons why code of this form cannot run on that host (another architecture, missing features), each as
/// INCOMPATIBLE_HOST; empty if it can.
std::vector<v1::Failure> hostProblems(const v1::CodeForm& code, const v1::HostInfo& host);

}  // namespace tessera::compiler
