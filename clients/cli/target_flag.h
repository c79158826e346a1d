#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "tessera/v1/target.pb.h"

namespace tessera::client {

/// What `--target` means: "host" is this machine, described here and sent along; a value with a '/' or
/// ending in .textproto is a file, as is one with a '.' where such a file is; anything else is a name the server
/// resolves.
absl::StatusOr<v1::TargetRef> resolveTarget(const std::string& flag);

/// What a target description's file holds.
absl::StatusOr<std::string> readTargetText(const std::string& path);

/// A target's description from a file, parsed; whether it is usable is for the server to say.
absl::StatusOr<v1::Target> readTargetFile(const std::string& path);

/// The description itself, validated, by the same rules: built-in ones, this machine and files are read here, other
/// names asked of the server.
absl::StatusOr<v1::Target> describedTarget(const CommandLine& line, const std::string& flag);

}  // namespace tessera::client
