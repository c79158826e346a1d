#pragma once

#include "compiler/import/operator.h"

namespace tessera::compiler {

/// Elements in their order under another shape. Of ranges those that stay apart in memory cost nothing; where several
/// are merged or cut, elements are looked up (live_shape.h).
Results lowerReshape(Node& n, Emitter& e);
Results lowerFlatten(Node& n, Emitter& e);

}  // namespace tessera::compiler
