#include "workers/content_hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {

void ContentHash::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

ContentHash::ContentHash() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }

void ContentHash::update(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

std::string ContentHash::finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), digest, &size);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

absl::StatusOr<v1::Digest> digestFile(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return absl::ErrnoToStatus(errno, path);
  struct stat status;
  if (fstat(file.get(), &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(status.st_mode)) return absl::FailedPreconditionError(absl::StrCat(path, ": not a regular file"));

  ContentHash hash;
  std::vector<char> chunk(1 << 20);
  int64_t total = 0;
  while (true) {
    const ssize_t got = read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path);
    if (got == 0) break;
    hash.update({chunk.data(), static_cast<size_t>(got)});
    total += got;
  }
  v1::Digest digest;
  digest.set_sha256(hash.finish());
  digest.set_size_bytes(total);
  return digest;
}

bool isSha256(std::string_view sha256) {
  return sha256.size() == 64 && std::all_of(sha256.begin(), sha256.end(),
                                            [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace tessera::worker
