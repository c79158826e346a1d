#pragma once

namespace tessera::compiler {

/// Registers every rewrite of this room as a pass of tessera-opt, under "tessera-<name>".
void registerGraphPasses();

/// Registers "tessera-plan", which prints the plan of @main: all rewrites in order, steps, memory. Called by
/// registerGraphPasses.
void registerPlanPass();

/// Registers "tessera-fuse-chains", which decides chains or regions of @main. Called by registerGraphPasses.
void registerFuseChainsPass();

}  // namespace tessera::compiler
