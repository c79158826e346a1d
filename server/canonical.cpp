#include "server/canonical.h"

#include <memory>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

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
  known->DiscardUnknownFields();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    known->SerializeToCodedStream(&coded);
  }
  return bytes;
}

}  // namespace tessera::server
