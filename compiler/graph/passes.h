#pragma once

namespace tessera::compiler {

/// Registers every rewrite of this room as a pass of tessera-opt, under "tessera-<name>".
void registerGraphPasses();

}  // namespace tessera::compiler
