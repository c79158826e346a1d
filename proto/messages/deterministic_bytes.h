#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace tessera {

/// Serializes with map entries sorted by key, so that equal messages give equal bytes.
std::string deterministicBytes(const google::protobuf::Message& message);

}  // namespace tessera
