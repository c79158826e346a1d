#pragma once

#include <string>
#include <vector>

#include "tessera/v1/job.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::server {

/// To be increased when the meaning of a stored message changes so that old results must not be reused.
inline constexpr int kSchemaVersion = 1;

/// Cache key of a compilation: compiling `spec` for `target` (resolved) with this version of the compiler, in a
/// project. Keys of two projects always differ, so that a project neither gets another one's results nor learns of
/// them.
///
/// The order of input_shapes, dimensions, specializations, external_data and target features does not matter.
/// `spec.name`, `target.summary` and the way in which the target was named are not part of the key.
std::string actionKey(const std::string& project, const v1::CompileSpec& spec, const v1::Target& target,
                      const std::string& compiler_version);

/// The components whose SHA-256 the key is, in the key's order, each always present.
std::vector<v1::KeyComponent> keyComponents(const std::string& project, const v1::CompileSpec& spec,
                                            const v1::Target& target, const std::string& compiler_version);

/// Key of the object of a BuildUnit blob.
std::string buildKey(const std::string& project, const std::string& unit_sha256, const std::string& compiler_version);

/// SHA-256 of a request without request_id, validate_only and client.
std::string requestHash(const v1::CreateJobRequest& request);

}  // namespace tessera::server
