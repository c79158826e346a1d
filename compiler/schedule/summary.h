#pragma once

#include <string>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler {

/// A short description for tables: the main kernel, rows x vectors of its register tile, and its slices: "outer-product
/// 14x2", "outer-product 8x3 in slices d0/1 d1/64", with ", halos kept" if slices follow each other in time; on a
/// described chip "calls cube.f16", or the name of the vector unit. Empty for an empty schedule.
std::string summarizeSchedule(const v1::Schedule& schedule);

/// Leaves of the tree in order, without those of stages.
std::vector<const v1::Tile*> leavesOf(const v1::Schedule& schedule);

}  // namespace tessera::compiler
