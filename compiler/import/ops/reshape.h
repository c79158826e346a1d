#pragma once

#include "compiler/import/operator.h"

namespace tessera::compiler {

/// Lowers Reshape: the elements, in order, in another shape. Ranges that stay separate in memory cost nothing; if
/// several are merged or split, elements are looked up (dynamic_shape.h).
Results lowerReshape(Node& n, Emitter& e);
Results lowerFlatten(Node& n, Emitter& e);

}  // namespace tessera::compiler
