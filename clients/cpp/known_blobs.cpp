#include "clients/cpp/known_blobs.h"

#include <algorithm>
#include <cstddef>

namespace tessera::client {
namespace {

constexpr size_t kMost = 10'000;

}  // namespace

bool KnownBlobs::all(const std::vector<v1::Digest>& digests) const {
  const std::lock_guard lock(mutex_);
  return std::all_of(digests.begin(), digests.end(),
                     [&](const v1::Digest& digest) { return sha256s_.contains(digest.sha256()); });
}

void KnownBlobs::add(const std::vector<v1::Digest>& digests) {
  const std::lock_guard lock(mutex_);
  for (const v1::Digest& digest : digests) {
    if (sha256s_.size() >= kMost) sha256s_.clear();
    sha256s_.insert(digest.sha256());
  }
}

void KnownBlobs::forget(const std::vector<v1::Digest>& digests) {
  const std::lock_guard lock(mutex_);
  for (const v1::Digest& digest : digests) sha256s_.erase(digest.sha256());
}

}  // namespace tessera::client
