#pragma once

#include "compiler/codegen/tiling/micro_kernel.h"

namespace tessera::compiler::codegen {

/// All micro-kernels. Of those that plan a nest the first one runs it.
llvm::ArrayRef<const MicroKernel*> microKernels();

/// The one of this name, or null.
const MicroKernel* kernelNamed(std::string_view name);

/// The plan of a nest by analysis: its kernel, vector loop, register tile, packing, cache blocks, loop order, grid.
TilePlan planTile(const Nest& nest, const Chip& chip, const Wanted& wanted = {});

/// The same in plain loops, whatever the nest.
TilePlan planScalar(const Nest& nest, const Chip& chip);

/// The plan of a nest that copies one operand to panels of `panel` iterations of `loop`.
TilePlan planCopy(const Nest& nest, const Chip& chip, int loop, int64_t panel);

}  // namespace tessera::compiler::codegen
