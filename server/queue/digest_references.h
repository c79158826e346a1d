#pragma once

#include <functional>
#include <string>

#include "google/protobuf/message.h"

namespace tessera::server {

/// Calls `use` with every string of the message, at any depth, that has the form of a SHA-256: digests, ids of
/// artifacts, keys of builds. By form, not by field, so that a collection also keeps what fields of later releases
/// refer to.
void forEachSha256(const google::protobuf::Message& message, const std::function<void(const std::string&)>& use);

}  // namespace tessera::server
