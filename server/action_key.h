#pragma once

#include <string>
#include <vector>

#include "tessera/v1/job.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::server {

/// Raised when the meaning of a stored message changes so that old results must not be reused.
inline constexpr int kSchemaVersion = 1;

/// What makes two compile requests the same work: the key of compiling `spec` for `target` (resolved) with the compiler
/// of this version, for a project: one does not get what another has made, nor learns that it has.
///
/// Order does not matter in input_shapes, dimensions, specializations, external_data and target features; `spec.name`,
/// `target.summary` and the way the target was named have no part in it.
std::string actionKey(const std::string& project, const v1::CompileSpec& spec, const v1::Target& target,
                      const std::string& compiler_version);

/// What it is the SHA-256 of, for people and for who looks what differs: in its order, every one always present.
std::vector<v1::KeyComponent> keyComponents(const std::string& project, const v1::CompileSpec& spec,
                                            const v1::Target& target, const std::string& compiler_version);

/// The key under which the object of a BuildUnit blob is kept.
std::string buildKey(const std::string& project, const std::string& unit_sha256, const std::string& compiler_version);

/// SHA-256 of what a client asked for: all of the request but request_id, validate_only and client.
std::string requestHash(const v1::CreateJobRequest& request);

}  // namespace tessera::server
