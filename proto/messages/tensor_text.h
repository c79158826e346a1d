#pragma once

#include <string>

#include "tessera/v1/tensor.pb.h"

namespace tessera {

/// Returns type and shape for display: "f32[1,3,224,224]".
std::string tensorText(const v1::TensorSpec& spec);

}  // namespace tessera
