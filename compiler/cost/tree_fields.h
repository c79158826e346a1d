#pragma once

#include <string>

#include "absl/status/status.h"
#include "tessera/v1/schedule.pb.h"

/// Which fields of a v1.Schedule the analysis of dataflows gives a meaning. It refuses every other field that is set,
/// so that nothing in a tree is ignored.
namespace tessera::compiler::cost {

/// INVALID_SCHEDULE about the tile at `path` ("0.1"; empty: the whole tree).
absl::Status scheduleFault(const std::string& path, const std::string& message);

absl::Status checkScheduleFields(const v1::Schedule& schedule);

/// Fields of one tile, its kernel and its stages; not of its children.
absl::Status checkTileFields(const v1::Tile& tile, const std::string& path);

}  // namespace tessera::compiler::cost
