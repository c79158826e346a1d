#pragma once

#include "compiler/backends/cpu/work_items.h"

namespace tessera::compiler::codegen {

/// Fuses consumers into the nests of their producers where vectors and registers permit it, and completes the nests. A
/// consumer whose body would need more than `vector_registers` live vectors keeps a nest of its own (hardware
/// adaptation, section 6.1.1): a store and a load are cheaper than spills.
void decideFusion(std::vector<WorkItem>& items, int vector_registers);

}  // namespace tessera::compiler::codegen
