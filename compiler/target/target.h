#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/target.pb.h"
#include "tessera/v1/target_service.pb.h"

/// Target descriptions: chips as data. Depends on the API's messages alone, no LLVM, so the server and the
/// clients use the same checks as the compiler.
namespace tessera::compiler {

/// Longest text accepted by parseTarget, in bytes.
inline constexpr size_t kMaxTargetBytes = 1 << 20;

/// Every fault of a description, none when it is usable. `field` is the path within the message, for example
/// "memory[1].capacity_bytes".
std::vector<v1::TargetProblem> validateTarget(const v1::Target& target);

/// Parses a text proto of v1::Target; says nothing of its values. The text is untrusted.
/// Fails with INVALID_TARGET; the message names each line and column at fault.
absl::StatusOr<v1::Target> parseTargetText(const std::string& text);

/// Parses and validates. Fails with INVALID_TARGET; the message names each line and column, or each field, at fault.
absl::StatusOr<v1::Target> parseTarget(const std::string& text);

/// Status form of problems: OK for none, else INVALID_TARGET with one line per problem.
absl::Status problemStatus(const std::string& target_name, const std::vector<v1::TargetProblem>& problems);

/// INVALID_TARGET for chips of families that are described, mapped and priced (compiler/intrinsic), but for which no
/// code is made.
absl::Status codeIsGeneratedFor(const v1::Target& target);

/// The description with everything removed that changes no decision: `summary` is cleared, features are
/// sorted and each stands once.
v1::Target canonicalTarget(v1::Target target);

/// SHA-256 of the canonical form, 64 lower-case hexadecimal digits. Equal on every machine.
std::string targetHash(const v1::Target& target);

/// Targets that come with Tessera, sorted by name (sources: compiler/target/builtin/*.textproto).
const std::vector<v1::Target>& builtinTargets();

/// The built-in target of that name, or null. "host" is not one: see detectHost().
const v1::Target* findBuiltinTarget(const std::string& name);

}  // namespace tessera::compiler
