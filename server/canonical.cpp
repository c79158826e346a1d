#include "server/canonical.h"

#include <openssl/evp.h>

#include <memory>

#include "absl/strings/escaping.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace tessera::server {

KeyHash::KeyHash() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
KeyHash::~KeyHash() { EVP_MD_CTX_free(context_); }

KeyHash& KeyHash::add(std::string_view part) {
  char length[8];
  for (size_t i = 0; i < sizeof(length); ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(part.size()) >> (8 * i));
  }
  addRaw(std::string_view(length, sizeof(length)));
  return addRaw(part);
}

KeyHash& KeyHash::addRaw(std::string_view bytes) {
  EVP_DigestUpdate(context_, bytes.data(), bytes.size());
  return *this;
}

std::string KeyHash::finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_, digest, &size);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string sha256Hex(std::string_view bytes) { return KeyHash().addRaw(bytes).finish(); }

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

bool isSha256(std::string_view text) {
  if (text.size() != 64) {
    return false;
  }
  for (char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
      return false;
    }
  }
  return true;
}

}  // namespace tessera::server
