#pragma once

#include <array>
#include <functional>
#include <map>
#include <unordered_set>
#include <vector>

#include "compiler/cost/dataflow.h"
#include "compiler/cost/simulate/buffer.h"
#include "compiler/cost/simulate/part.h"
#include "compiler/cost/simulate/task_graph.h"

namespace tessera::compiler::cost {

/// Executes a bound tree in program order: moves elements, counts them, and records the tasks with what they wait for.
class Execution {
 public:
  /// The arguments outlive the object.
  Execution(const loopnest::Nest& nest, const BoundTree& tree, const Machine& machine);

  /// Everything but cycles and limits.
  DataflowCost run();
  const TaskGraph& tasks() const { return graph_; }
  const std::vector<int64_t>& unitsOfKinds() const { return units_of_kinds_; }

 private:
  /// A transfer out of a buffer, with the step in which the buffer got what leaves.
  struct Store {
    int64_t step = -1;
    int task = -1;
  };
  /// Tasks around one buffer.
  struct BufferTasks {
    int load = -1;                     ///< the last transfer to it
    Store last = {}, before = {};      ///< transfers from it, of different steps
    std::vector<int> slot = {};        ///< after these the copy for the current step is free
    std::vector<size_t> feeders = {};  ///< buffers that drain into it
    int64_t step = 0;                  ///< steps of its tile so far
    int64_t written_in = 0;            ///< step of the source's buffer in which its content was written
    int64_t words = 0;                 ///< of the fullest instance
  };
  struct TileTasks {
    std::vector<std::array<int, 2>> ends;  ///< of each child: its last execution, and the one before
    int vacated = -1;                      ///< Seq: the last child has left the memory
  };

  const BoundNode& node(int position) const { return tree_.nodes[static_cast<size_t>(position)]; }
  Traffic& traffic(int level, int tensor) {
    return cost_.levels[static_cast<size_t>(level)].tensors[static_cast<size_t>(tensor)];
  }
  int port(int tile, bool writes);
  int join(std::vector<int> tasks);
  bool isExclusive(const BoundNode& tile) const;
  bool accesses(int tile, int tensor) const;
  bool hasWork(int tile, const Indices& step) const;

  void visit(int tile, const Indices& outer);
  void beginStep(int tile);
  void runChild(int tile, size_t child, const Indices& step);
  /// Brings a buffer to the slice of a step.
  void update(size_t position, const Indices& step);
  int compute(int tile, const Indices& step);
  /// Results of a child that the tile's other children wait for leave the child.
  void complete(int tile, size_t child);
  /// Seq: evicts after a child.
  void vacate(int tile, size_t child);
  void drain(size_t position, bool evicts);

  /// Words of each instance of a buffer, and elements of each instance of its source.
  struct Moves {
    Moves(size_t instances, size_t sources) : words(instances), elements(sources) {}
    std::vector<int64_t> words;
    std::vector<Elements> elements;
    bool any = false;
    void add(size_t instance, size_t source, const Elements& moved);
    int64_t mostWords() const;
    /// Unites what several instances move. Returns the sum, and the most of one source in `most`.
    int64_t unite(int64_t& most);
  };
  void fill(size_t position, Moves sent, const std::vector<Elements>& made);
  void store(size_t position, Moves gone, int64_t content_step);
  void noteWords(size_t position);
  void countUnits();
  /// Units or instances that a tile itself uses, given the product of its spatial loops; 0: those of its children.
  using Uses = std::function<int64_t(const BoundNode&, int64_t)>;
  /// The most that are in use at once, at or below a tile.
  int64_t atOnce(int position, const Uses& uses) const;

  const loopnest::Nest& nest_;
  const BoundTree& tree_;
  const Machine& machine_;
  std::vector<Buffer> buffers_;
  std::vector<BufferTasks> buffer_tasks_;
  std::vector<TileTasks> tile_tasks_;
  std::vector<std::vector<size_t>> buffers_at_;    ///< positions, of each tile
  std::vector<std::vector<size_t>> root_feeders_;  ///< of each tensor: buffers that drain into the outermost memory
  std::vector<std::unordered_set<int64_t>> outermost_;  ///< of each tensor: elements that the outermost memory holds
  std::map<Part, int> last_on_units_;
  std::map<std::pair<int, Part>, int> ports_;  ///< by 2 * level + writes
  int barrier_ = -1;                           ///< what tasks of the current child wait for
  std::vector<int64_t> units_of_kinds_;
  TaskGraph graph_;
  DataflowCost cost_;
};

}  // namespace tessera::compiler::cost
