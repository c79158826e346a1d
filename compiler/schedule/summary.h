#pragma once

#include <string>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler {

/// A few words for tables: the kernel that most of the work is in, rows x vectors of its register tile, the slices it
/// runs in: "outer-product 14x2", "outer-product 8x3 in slices d0/1 d1/64", with ", halos kept" where slices
/// follow each other in time. Empty for an empty schedule.
std::string summarizeSchedule(const v1::Schedule& schedule);

/// Leaves of the tree in order, those of stages left out.
std::vector<const v1::Tile*> leavesOf(const v1::Schedule& schedule);

}  // namespace tessera::compiler
