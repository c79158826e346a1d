#pragma once

#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/v1/tensor.pb.h"

namespace tessera::client {

/// A set of blobs that a service is known to have had. Clients skip the question for these; if the service has
/// collected one since, it answers MISSING_BLOB. Thread-safe.
class KnownBlobs {
 public:
  bool all(const std::vector<v1::Digest>& digests) const;
  void add(const std::vector<v1::Digest>& digests);
  void forget(const std::vector<v1::Digest>& digests);

 private:
  mutable std::mutex mutex_;
  std::unordered_set<std::string> sha256s_;  ///< at most kMost entries; cleared when full
};

}  // namespace tessera::client
