#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "tessera/v1/target.pb.h"

namespace tessera::client {

/// Resolves the value of `--target`. "host" is this machine, described here and sent along. A value with a '/' or
/// ending in .textproto is a file, as is one with a '.' if the file exists. Any other value is a name that the server
/// resolves.
absl::StatusOr<v1::TargetRef> resolveTarget(const std::string& flag);

/// Returns the text of a target description file.
absl::StatusOr<std::string> readTargetText(const std::string& path);

/// Parses a target description file; the server validates it.
absl::StatusOr<v1::Target> readTargetFile(const std::string& path);

/// Returns the validated description for a value of `--target`: built-in targets, this machine and files are read here,
/// other names are fetched from the server.
absl::StatusOr<v1::Target> describedTarget(const CommandLine& line, const std::string& flag);

}  // namespace tessera::client
