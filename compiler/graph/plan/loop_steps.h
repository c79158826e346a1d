#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/plan/buffer_plan.h"
#include "compiler/ir/loop_op.h"

namespace tessera::compiler {

/// Where a loop's own memory is: a part of the arena, for as long as the loop runs. Its body's arena comes first.
struct LoopMemory {
  int storage = -1;
  int64_t iteration = 0, condition = 0;  ///< bytes from its start
  std::vector<int64_t> spares = {};      ///< of each value that is carried
  int64_t bytes = 0;
};

LoopMemory layOutLoop(LoopOp loop, const PlannedGraph& body);

/// Puts a loop and the steps of its body into `planned`, behind the steps that are there.
class LoopWriter {
 public:
  /// The buffer of a value of @main.
  using BufferOf = llvm::function_ref<int(mlir::Value)>;

  /// `prepared`: how many weights of @main itself are prepared. Those of bodies, in planned.prepared, come behind them.
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
