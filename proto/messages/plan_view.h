#pragma once

#include <string>

#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/plan.pb.h"

namespace tessera {

/// Returns the steps of a plan as a graph: one node per step, and one edge per tensor that one step writes and another
/// reads, also if the two access it with different shapes or offsets. The plan must contain its workloads' IR, from
/// which the number of results of a step is derived. Does not need the compiler, so clients can display an artifact's
/// plan. Plans are not trusted: invalid indices are skipped. At most kMaxEdges edges are returned. Edges and node
/// names are omitted once kMaxCopiedBytes of them were copied, since many steps may share a long name.
inline constexpr int kMaxEdges = 100'000;
inline constexpr size_t kMaxCopiedBytes = 64 << 20;
v1::GraphView viewPlan(const v1::Plan& plan);

/// Returns the layout of a tensor that a convolution or pooling writes ("NCHW", "NHWC", "NCHW16c"), derived from the
/// workload's summary and the tensor's shape; empty if they do not determine it.
std::string layoutOf(const std::string& summary, const v1::TensorSpec& tensor);

}  // namespace tessera
