#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/plan/buffer_plan.h"
#include "compiler/ir/loop_op.h"

namespace tessera::compiler {

/// The memory of a loop itself: a part of the arena that is live while the loop runs. The body's arena comes first.
struct LoopMemory {
  int storage = -1;
  int64_t iteration = 0, condition = 0;  ///< bytes from its start
  std::vector<int64_t> spares = {};      ///< offset of the spare buffer of each carried value
  int64_t bytes = 0;
};

LoopMemory layOutLoop(LoopOp loop, const PlannedGraph& body);

/// Writes a loop and the steps of its body into `planned`, after the existing steps.
class LoopWriter {
 public:
  /// Returns the buffer of a value of @main.
  using BufferOf = llvm::function_ref<int(mlir::Value)>;

  /// `prepared` is the number of prepared weights of @main. Prepared weights of bodies follow them in planned.prepared.
  LoopWriter(PlannedGraph& planned, std::map<std::string, int>& workload_of, const BufferPlan& memory, int prepared)
      : planned_(planned), workload_of_(workload_of), memory_(memory), prepared_(prepared) {}

  void write(LoopOp loop, const PlannedGraph& body, const LoopMemory& own, BufferOf buffer_of);

 private:
  int addBuffer(v1::Buffer::Kind kind, int index, int64_t offset, int64_t bytes, const v1::TensorSpec& spec);
  int inArena(const LoopMemory& own, int64_t offset, int64_t bytes, const v1::TensorSpec& spec);
  std::vector<int> writeBuffers(LoopOp loop, const PlannedGraph& body, const LoopMemory& own, BufferOf buffer_of,
                                v1::StepLoop& table, int loops);
  void writeSteps(const PlannedGraph& body, const std::vector<int>& buffers);

  PlannedGraph& planned_;
  std::map<std::string, int>& workload_of_;
  const BufferPlan& memory_;
  const int prepared_;
};

}  // namespace tessera::compiler
