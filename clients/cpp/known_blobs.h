#pragma once

#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/v1/tensor.pb.h"

namespace tessera::client {

/// Blobs that a service had when it was asked, or sent, last. Whoever names known ones need not ask again: the service
/// says MISSING_BLOB where it has collected one since. Thread-safe.
class KnownBlobs {
 public:
  bool all(const std::vector<v1::Digest>& digests) const;
  void add(const std::vector<v1::Digest>& digests);
  void forget(const std::vector<v1::Digest>& digests);

 private:
  mutable std::mutex mutex_;
  std::unordered_set<std::string> sha256s_;  ///< at most kMost: then it begins anew
};

}  // namespace tessera::client
