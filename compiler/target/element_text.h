#pragma once

#include <string>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// "s8", "u8", "bf16", "f32": types in the notation of instruction manuals.
std::string elementText(v1::DataType type);

bool isFloatingPoint(v1::DataType type);

/// One line of definition 3: "acc:s32[i] += a:u8[i, r] * b:s8[i, r], i < 16, r < 4".
std::string computeText(const v1::Intrinsic& intrinsic);

}  // namespace tessera::compiler
