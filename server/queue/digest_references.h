#pragma once

#include <functional>
#include <string>

#include "google/protobuf/message.h"

namespace tessera::server {

/// Calls `use` with every text of a message, at any depth, that has the form of a SHA-256. A digest is named by a
/// Digest, by an artifact's id or a build's key, and by fields of later releases: what looks like a name keeps what it
/// names.
void forEachSha256(const google::protobuf::Message& message, const std::function<void(const std::string&)>& use);

}  // namespace tessera::server
