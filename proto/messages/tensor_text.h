#pragma once

#include <string>

#include "tessera/v1/tensor.pb.h"

namespace tessera {

/// Type and shape for people: "f32[1,3,224,224]".
std::string tensorText(const v1::TensorSpec& spec);

}  // namespace tessera
