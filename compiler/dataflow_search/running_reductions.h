#pragma once

#include "compiler/loopnest/nest.h"

/// Reductions whose results may be read before they are complete, because later steps correct what was made of them.
namespace tessera::compiler::dataflow_search {

/// Whether statement `s` reduces over `loop` as a part of a softmax: a maximum, or a sum of values that depend on a
/// maximum over the same loop.
bool isRunningReduction(const loopnest::Nest& nest, int s, int loop);

}  // namespace tessera::compiler::dataflow_search
