#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// The static features of a workload that the thesis (4.3.1) collects before it builds a schedule space: sizes of each
/// node, and the node graph. A node is one tensor operation of the workload, before nests are fused. Tensors that are
/// only filled with one value are not nodes.
struct StaticAnalysis {
  struct Node {
    /// extents of parallel loops, outermost first; their number is the thesis's #sl, the extents its stc
    std::vector<int64_t> spatial;
    std::vector<int64_t> reductions;  ///< the same of reduction loops: #rl, rtc
    std::string order;                ///< the loops in program order: "s s r"
    int inputs = 0, outputs = 0;      ///< tensors: #in, #out
    int consumers = 0;                ///< nodes that read this node's result: #cs
  };
  std::vector<Node> nodes;  ///< in program order; #node
  /// Extents of the loops that tiles consist of, after merging and fusion, by nest number and loop name as in trees.
  std::map<std::pair<int, std::string>, int64_t> extents;
};

/// Analyses one workload; its schedule is not read. Errors: as defaultSchedule.
absl::StatusOr<StaticAnalysis> analyzeWorkload(const v1::BuildUnit& unit);

}  // namespace tessera::compiler
