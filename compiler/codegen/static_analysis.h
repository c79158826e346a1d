#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// What the thesis (4.3.1) collects of a workload before it makes a space of schedules of it: numbers of each node,
/// and how nodes hang together. A node is one tensor operation as the workload has it, before nests are fused; tensors
/// that are filled with one value only are none.
struct StaticAnalysis {
  struct Node {
    std::vector<int64_t> spatial;     ///< extents of parallel loops, outermost first; as many as #sl; stc of the thesis
    std::vector<int64_t> reductions;  ///< the same of loops that sum: #rl, rtc
    std::string order;                ///< the loops as they stand: "s s r"
    int inputs = 0, outputs = 0;      ///< tensors: #in, #out
    int consumers = 0;                ///< nodes that read what this one makes: #cs
  };
  std::vector<Node> nodes;  ///< in program order; #node
  /// Extents of the loops that tiles are made of, which are merged and fused: by nest and name, as trees name them.
  std::map<std::pair<int, std::string>, int64_t> extents;
};

/// Of one workload; its schedule has no part in it. Errors as defaultSchedule's.
absl::StatusOr<StaticAnalysis> analyzeWorkload(const v1::BuildUnit& unit);

}  // namespace tessera::compiler
