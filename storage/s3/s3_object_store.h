#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "storage/objects/object_store.h"
#include "storage/s3/http_client.h"
#include "storage/s3/location.h"

namespace tessera::storage {

struct S3Options {
  /// Larger objects are sent in parts of this size, or larger ones if there would be more than 9,000. S3 accepts parts
  /// of at least 5 MiB.
  int64_t part_bytes = int64_t{16} << 20;
  /// A request is sent at most this often. The pause before the n-th repetition is a random part of
  /// first_pause * 2^(n-1), at most most_pause, so that many clients do not repeat in step.
  int attempts = 7;
  std::chrono::milliseconds first_pause{100}, most_pause{5000};
  HttpOptions http = {};  ///< `ca_file` is the location's
  /// Waits; replaced by tests.
  std::function<void(std::chrono::milliseconds)> pause = {};
};

/// Objects in a bucket of an S3 service, or of a compatible one. Requests are signed with AWS Signature Version 4 over
/// the body's hash, so that the service rejects a body that was damaged on the way; credentials: credentials.h.
/// Sends no request.
std::unique_ptr<ObjectStore> openS3Objects(const S3Location& location, const S3Options& options = {});

}  // namespace tessera::storage
