#pragma once

#include <cstdint>
#include <vector>

/// What happens in a simulated run: transfers, computations, and what each waits for.
namespace tessera::compiler::cost {

/// One task. A transfer uses the read port of its source and the write port of its destination at the same time; a
/// task without ports and duration only joins what it waits for.
struct Task {
  int read_port = -1, write_port = -1;
  double read_bytes = 0, write_bytes = 0;  ///< of the busiest instance
  double duration = 0;                     ///< cycles of a computation
  std::vector<int> waits_for = {};         ///< tasks
};

struct TaskGraph {
  std::vector<Task> tasks;
  std::vector<double> port_bytes_per_cycle;

  int add(Task task) {
    tasks.push_back(std::move(task));
    return static_cast<int>(tasks.size()) - 1;
  }
  void wait(int task, int earlier) {
    if (earlier >= 0) tasks[static_cast<size_t>(task)].waits_for.push_back(earlier);
  }
};

/// The cycle in which each task ends. A task starts as soon as all tasks that it waits for have ended. Transfers at one
/// port share its bandwidth equally; one that needs two ports ends when both have served it. The graph has no cycle of
/// waiting.
std::vector<double> runTasks(const TaskGraph& graph);

}  // namespace tessera::compiler::cost
