#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "storage/store.h"
#include "tessera/v1/operator_service.pb.h"

namespace tessera::storage {

/// The operators of a compiler as a list with filter, order and pages. It is in memory: workers send their operators at
/// each registration, so nothing is lost with the process. Page tokens are valid within the process only.
class OperatorList {
 public:
  using Operators = google::protobuf::RepeatedPtrField<v1::OperatorInfo>;

  static absl::StatusOr<std::unique_ptr<OperatorList>> create(const Operators& operators);
  virtual ~OperatorList() = default;

  /// Thread-safe.
  virtual absl::StatusOr<Page<v1::OperatorInfo>> list(const ListQuery& query) = 0;
};

}  // namespace tessera::storage
