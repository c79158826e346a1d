#pragma once

#include <optional>
#include <vector>

#include "compiler/cost/machine.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/schedule.pb.h"

/// The oracle of the exact search: every tree of its space, one by one.
namespace tessera::compiler::dataflow_search {

/// All trees, valid or not: every division into phases, all shared tiles, and all tiles of each operator. Empty if
/// there are more than `most`.
std::optional<std::vector<v1::Schedule>> enumerateTrees(const loopnest::Nest& nest, const cost::Machine& machine,
                                                        size_t most);

}  // namespace tessera::compiler::dataflow_search
