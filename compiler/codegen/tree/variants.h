#pragma once

#include <string_view>

#include "compiler/codegen/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// The variant (v1::Kernel.variant) that runs `nest` under `plan`; not for copies to panels.
std::string_view variantOf(const Nest& nest, const TilePlan& plan);

/// Points of the register tile along parallel loop `loop`: vectors along the vector loop.
int64_t pointsAlong(const TilePlan& plan, int loop);

/// Why vectors of `variant` cannot run `nest` under `plan`, all of whose loops are known; empty: they can.
std::string refusal(std::string_view variant, const Nest& nest, const TilePlan& plan);

}  // namespace tessera::compiler::codegen
