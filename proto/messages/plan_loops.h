#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/plan.pb.h"

namespace tessera {

/// For each step of `plan` how often it runs in a run, by what is known before: the product of most_iterations of the
/// loops around it, each at least 1; at most 2^31.
std::vector<int64_t> iterationsOfSteps(const v1::Plan& plan);

/// For each buffer of `plan` the one whose memory it is a part of: a LOOP buffer's is what its loop scans, or the value
/// before or behind all iterations of what it carries. Every other buffer is its own.
std::vector<int> memoryOfBuffers(const v1::Plan& plan);

}  // namespace tessera
