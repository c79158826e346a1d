#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/file_system.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::storage {

/// An object, as a listing shows it.
struct ObjectInfo {
  std::string name;
  int64_t bytes = 0;
  int64_t age_s = 0;  ///< seconds since it was written, by the store's clock
};

/// Requests that one process has sent to an object store, and the bytes of objects that it has sent and received.
struct ObjectRequests {
  std::atomic<int64_t> gets = 0, puts = 0, heads = 0, lists = 0, deletes = 0;
  std::atomic<int64_t> retries = 0;   ///< requests that repeated a failed one; they are included above
  std::atomic<int64_t> failures = 0;  ///< calls that failed although they were repeated
  std::atomic<int64_t> bytes_sent = 0, bytes_received = 0;
};

/// Whole immutable objects by name, outside this machine: an S3 bucket, or a folder that several machines mount. Names
/// consist of "/", letters, digits, ".", "_" and "-". Thread-safe. Implementations repeat requests that failed for
/// reasons that pass (a lost connection, an overloaded service) before they return UNAVAILABLE.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Stores the bytes of `file`, whose size and SHA-256 are `digest`. On success the object is durable and complete; an
  /// earlier object of the name is replaced. No reader ever sees a part of it. DATA_LOSS if the file's bytes do not
  /// match the digest; nothing is stored then.
  virtual absl::Status put(const std::string& name, const File& file, const v1::Digest& digest) = 0;

  /// Passes the bytes [offset, offset + limit) to `sink` in chunks; limit 0 = to the end. The bytes are not verified.
  /// NOT_FOUND only if the store is reachable and says that it has no such object: a missing bucket or an unmounted
  /// folder is FAILED_PRECONDITION. OUT_OF_RANGE if the object has fewer than `offset` bytes.
  virtual absl::Status get(const std::string& name, int64_t offset, int64_t limit,
                           const std::function<absl::Status(std::string_view chunk)>& sink) = 0;

  /// No effect if there is no such object.
  virtual absl::Status remove(const std::string& name) = 0;

  /// Visits the objects whose names begin with `prefix` and are greater than `after`, in order of their names, until
  /// `visit` returns false.
  virtual absl::Status list(const std::string& prefix, const std::string& after,
                            const std::function<bool(const ObjectInfo& object)>& visit) = 0;

  /// Removes what interrupted calls of put() have left for at least `age_s` seconds. Returns the number of removals.
  virtual absl::StatusOr<int> removeIncomplete(int64_t age_s) = 0;

  /// Writes a small object, to detect errors that put() would meet.
  virtual absl::Status checkWritable() = 0;

  /// The place of an object, for messages.
  virtual std::string placeOf(const std::string& name) const = 0;

  virtual const ObjectRequests& requests() const = 0;
};

}  // namespace tessera::storage
