#include "server/canonical.h"

#include <memory>
#include <utility>

#include "proto/messages/deterministic_bytes.h"

namespace tessera::server {

KeyHash& KeyHash::add(std::string_view part) {
  char length[8];
  for (size_t i = 0; i < sizeof(length); ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(part.size()) >> (8 * i));
  }
  hash_.update(std::string_view(length, sizeof(length)));
  hash_.update(part);
  return *this;
}

std::string canonicalBytes(const google::protobuf::Message& message) {
  std::unique_ptr<google::protobuf::Message> known(message.New());
  known->CopyFrom(message);
  return canonicalBytes(std::move(*known));
}

std::string canonicalBytes(google::protobuf::Message&& message) {
  message.DiscardUnknownFields();
  return deterministicBytes(message);
}

}  // namespace tessera::server
