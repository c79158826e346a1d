#include "proto/support/io_failure.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"

namespace tessera {

absl::Status ioFailure(const std::string& what, int error_number) {
  return failureStatus(v1::Failure::WORKER_FAULT,
                       absl::StrCat(what, ": ", std::generic_category().message(error_number)));
}

}  // namespace tessera
