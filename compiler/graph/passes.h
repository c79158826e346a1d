#pragma once

namespace tessera::compiler {

/// Registers every rewrite of this room as a pass of tessera-opt, under "tessera-<name>".
void registerGraphPasses();

/// Registers "tessera-plan", which runs all rewrites in order on @main and prints the plan: steps and memory. Called by
/// registerGraphPasses.
void registerPlanPass();

/// Registers "tessera-fuse-chains", which selects chains or regions of @main. Called by registerGraphPasses.
void registerFuseChainsPass();

}  // namespace tessera::compiler
