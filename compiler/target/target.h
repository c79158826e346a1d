#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/target.pb.h"
#include "tessera/v1/target_service.pb.h"

/// Target descriptions: chips as data. Depends on the API's messages only, not on LLVM, so that the server and the
/// clients apply the same checks as the compiler.
namespace tessera::compiler {

/// Longest text accepted by parseTarget, in bytes.
inline constexpr size_t kMaxTargetBytes = 1 << 20;

/// All faults of a description; empty when it is usable. `field` is the path within the message, for example
/// "memory[1].capacity_bytes".
std::vector<v1::TargetProblem> validateTarget(const v1::Target& target);

/// Parses a text proto of v1::Target without validating its values. The text is untrusted. Fails with INVALID_TARGET
/// naming each line and column at fault.
absl::StatusOr<v1::Target> parseTargetText(const std::string& text);

/// Parses and validates. Fails with INVALID_TARGET naming each line and column, or each field, at fault.
absl::StatusOr<v1::Target> parseTarget(const std::string& text);

/// Converts problems to a status: OK if there are none, otherwise INVALID_TARGET whose message has one line for each.
absl::Status statusOfProblems(const std::string& target_name, const std::vector<v1::TargetProblem>& problems);

/// INVALID_TARGET if models are not compiled for the chip's family, with the reason. Such a chip can only be described,
/// and operators mapped to its instructions with predicted costs (compiler/intrinsic).
absl::Status modelsCompileFor(const v1::Target& target);

/// Whether programs for the chip run on the simulator, and not on a processor.
bool isSimulated(const v1::Target& target);

/// Whether programs for the chip are OpenCL C, which a driver of the device compiles when they run.
bool runsOnOpenCl(const v1::Target& target);

/// The description without the parts that affect no decision: `summary` is cleared, features are sorted and unique,
/// rates of units are sorted.
v1::Target canonicalTarget(v1::Target target);

/// SHA-256 of the canonical form, 64 lower-case hexadecimal digits. Equal on all machines.
std::string targetHash(const v1::Target& target);

/// Targets that come with Tessera, sorted by name (sources: compiler/target/builtin/*.textproto).
const std::vector<v1::Target>& builtinTargets();

/// The built-in target of this name, or null. "host" is not built in: see detectHostTarget().
const v1::Target* findBuiltinTarget(const std::string& name);

}  // namespace tessera::compiler
