#pragma once

#include <string>

#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/plan.pb.h"

namespace tessera {

/// The steps of a plan as a graph: a node for each step, an edge for each tensor that one step writes and another
/// reads, also where they name it by different shapes or offsets. The plan must still have its workloads' IR, which
/// says how many of a step's operands are results. Needs no compiler, so that clients can show an artifact's plan.
/// Plans of strangers are taken as they are: what points nowhere is left out, and so are all edges beyond the first
/// kMostEdges, and edges and names of nodes when kMostCopiedBytes of such were copied: many steps may share a long one.
inline constexpr int kMostEdges = 100'000;
inline constexpr size_t kMostCopiedBytes = 64 << 20;
v1::GraphView viewPlan(const v1::Plan& plan);

/// The layout of a tensor that a convolution or pooling writes ("NCHW", "NHWC", "NCHW16c"), read off the workload's
/// summary; empty when the shape does not tell.
std::string layoutOf(const std::string& summary, const v1::TensorSpec& tensor);

}  // namespace tessera
