#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

struct evp_md_ctx_st;

namespace tessera::worker {

/// SHA-256 over bytes that come in pieces.
class ContentHash {
 public:
  ContentHash();
  void update(std::string_view bytes);
  /// 64 lower-case hexadecimal digits. Once.
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// Digest of a regular file; a symbolic link or anything else is refused (FAILED_PRECONDITION), since the
/// file may come from a task that is not trusted.
absl::StatusOr<v1::Digest> digestFile(const std::string& path);

/// Whether `sha256` is 64 lower-case hexadecimal digits, and so safe as a file's name.
bool isSha256(std::string_view sha256);

}  // namespace tessera::worker
