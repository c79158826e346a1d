#pragma once

#include "compiler/backends/cpu/tiling/micro_kernel.h"

namespace tessera::compiler::codegen {

/// All micro-kernels. The first one whose plan() accepts a nest runs it.
llvm::ArrayRef<const MicroKernel*> microKernels();

/// The kernel of this name, or null.
const MicroKernel* kernelNamed(std::string_view name);

/// Plans a nest by analysis: kernel, vector loop, register tile, packing, cache blocks, loop order, grid.
TilePlan planTile(const Nest& nest, const Chip& chip, const PlanConstraints& wanted = {});

/// Plans any nest as plain scalar loops.
TilePlan planScalar(const Nest& nest, const Chip& chip);

/// Plans `copy`, which copies an operand of `nest` to panels of `width` iterations. `loops`: of `nest`, one per loop of
/// the copy.
TilePlan planCopy(const Nest& copy, const Nest& nest, const PackedOperand& packed, llvm::ArrayRef<int> loops,
                  int64_t width, const Chip& chip);

}  // namespace tessera::compiler::codegen
