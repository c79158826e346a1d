#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace tessera {

/// The message's bytes with maps in key order: equal messages, equal bytes.
std::string deterministicBytes(const google::protobuf::Message& message);

}  // namespace tessera
