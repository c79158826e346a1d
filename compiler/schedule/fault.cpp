#include "compiler/schedule/fault.h"

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {

absl::Status scheduleFault(const std::string& path, const std::string& message, const std::string& found,
                           const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_SCHEDULE);
  failure.set_message(absl::StrCat("schedule", path.empty() ? "" : ", tile ", path, ": ", message, ": found ", found,
                                   accepted.empty() ? "" : absl::StrCat(", accepted: ", accepted)));
  failure.set_attribute(path);
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix("change the tile, or leave the workload to the default schedule");
  return failureStatus(failure);
}

std::string childPath(const std::string& path, int position) {
  return path.empty() ? absl::StrCat(position) : absl::StrCat(path, ".", position);
}

}  // namespace tessera::compiler
