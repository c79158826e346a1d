#include "compiler/cost/tree_fields.h"

#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::cost {
namespace {

/// Fails if the message has a field that is not among the accepted ones.
absl::Status acceptOnly(const google::protobuf::Message& message, const std::set<std::string_view>& accepted,
                        const std::string& path, std::string_view where) {
  std::vector<const google::protobuf::FieldDescriptor*> present;
  message.GetReflection()->ListFields(message, &present);
  for (const google::protobuf::FieldDescriptor* field : present) {
    if (!accepted.contains(field->name()))
      return scheduleFault(path, absl::StrCat(std::string(where), " sets '", std::string(field->name()),
                                              "', which the analysis of dataflows cannot follow"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status scheduleFault(const std::string& path, const std::string& message) {
  return failureStatus(v1::Failure::INVALID_SCHEDULE,
                       path.empty() ? absl::StrCat("schedule: ", message) : absl::StrCat("tile ", path, ": ", message));
}

absl::Status checkScheduleFields(const v1::Schedule& schedule) {
  if (schedule.phases().empty()) return scheduleFault("", "has no tile");
  return acceptOnly(schedule, {"phases"}, "", "the tree");
}

absl::Status checkTileFields(const v1::Tile& tile, const std::string& path) {
  if (tile.has_kernel()) {
    if (!tile.children().empty()) return scheduleFault(path, "has a kernel and children; accepted is one of them");
    if (tile.join() != v1::Tile::JOIN_UNSPECIFIED) return scheduleFault(path, "joins children, but is a leaf");
    TESSERA_RETURN_IF_ERROR(acceptOnly(tile.kernel(), {"variant", "nest", "instruction"}, path, "the kernel"));
    if (tile.kernel().variant() != "compute")
      return scheduleFault(path, absl::StrCat("kernel '", tile.kernel().variant(), "'; accepted: compute"));
  } else if (tile.children().empty()) {
    return scheduleFault(path, "has neither children nor a kernel; accepted: compute nest NUMBER");
  }
  for (const v1::Stage& stage : tile.stages()) {
    if (stage.layout() != "bypass")
      return scheduleFault(path, absl::StrCat("stage '", stage.layout(), "'; accepted: stage bypass TENSOR,TENSOR"));
    TESSERA_RETURN_IF_ERROR(acceptOnly(stage, {"layout", "order"}, path, "the stage"));
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::cost
