#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/plan.pb.h"

namespace tessera {

/// Upper bound of the number of executions of each step in one run: the product of max_iterations (at least 1) of the
/// enclosing loops, at most 2^31.
std::vector<int64_t> iterationsOfSteps(const v1::Plan& plan);

/// For each buffer, the buffer whose memory it occupies. A LOOP buffer is part of the tensor that its loop scans, or of
/// the value before or after all iterations that it carries. Any other buffer maps to itself.
std::vector<int> memoryOfBuffers(const v1::Plan& plan);

}  // namespace tessera
