#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/cost/movement.h"
#include "compiler/dataflow_search/needed.h"
#include "compiler/dataflow_search/operator_fronts.h"
#include "tessera/v1/schedule.pb.h"

/// The trees of one phase: consecutive operators that run together. One tile for each level from the outermost memory
/// inwards to some level is shared by all of them; inside, each operator has its own tiles.
namespace tessera::compiler::dataflow_search {

/// Restricts the space; a dataflow of table 3.8 is a restriction.
struct Restriction {
  std::vector<int> phase_ends;        ///< the end of each phase, as statement positions; empty: any
  std::vector<bool> shared_loops;     ///< by loop: whether tiles shared by several operators may cut it; empty: any
  std::vector<v1::Tile::Join> joins;  ///< of several operators; empty: Seq, Shar and Pipe
  bool ignore_limits = false;         ///< capacities, and numbers of instances and units
};

inline constexpr size_t kMaxSampled = 400;

/// The tiles that the operators of a phase share.
struct SharedTiles {
  int begin = 0, end = 0;  ///< statements
  v1::Tile::Join join = v1::Tile::SEQ;
  bool running = false;          ///< reductions of a softmax are running ones
  std::vector<TileLoops> tiles;  ///< of the outermost memory and of each further level inwards
  int split = 0;                 ///< level of the tile that joins the operators, the last one
};

/// Figures of phases that add up over a run. The outermost memory's ports limit the whole run, not a phase.
struct PhaseCost {
  double cycles = 0;       ///< without the outermost memory
  double out = 0, in = 0;  ///< bytes that it sends and receives
  double sending = 0;      ///< cycles in which it sends, and those of the last results, which follow
  double receiving = 0;    ///< cycles of the first slices, and those in which it receives, which follow
  double energy = 0;

  PhaseCost operator+(const PhaseCost& other) const {
    return {.cycles = cycles + other.cycles,
            .out = out + other.out,
            .in = in + other.in,
            .sending = sending + other.sending,
            .receiving = receiving + other.receiving,
            .energy = energy + other.energy};
  }
};

/// One way to run a phase.
struct PhaseOption {
  PhaseCost cost;
  size_t shared = 0;  ///< position of its SharedTiles, set by the caller
  std::vector<const Partial*> operators;
};

/// The tiles of one operator inside of the shared ones, outermost first; the last one is its leaf.
struct OperatorTiles {
  std::vector<TileLoops> tiles;
  int unit = 0;
};

class PhaseSpace {
 public:
  using Visit = std::function<void(const SharedTiles& shared, const PhaseCost& at_least)>;
  /// One of several equal parts of an enumeration, for one of several threads. Each thread has a space of its own.
  struct Section {
    size_t number = 0, of = 1;
  };

  PhaseSpace(const loopnest::Nest& nest, cost::Machine machine, Figures figures, Restriction restriction,
             std::function<bool()> stopped);

  /// Calls visit for all shared tiles of statements begin to end, with a cost that no option has less of. Tiles that
  /// exceed a limit of the chip are left out. If `stride` is 1, tiles of the outermost memory only: those whose
  /// operators join further inwards are open. Visits one of `stride` cuts of each tile, and no more than kMaxSampled
  /// for each join if that is above 1. `accept` sees them before their movement is computed, with the cycles that
  /// computation and operands take at least. Cuts of the outermost tile are numbered in one order; those of the section
  /// are visited, and `cut` has the number of the current one.
  void forEach(int begin, int end, size_t stride, Section section, size_t& cut,
               const std::function<bool(double cycles)>& accept, const Visit& visit);

  bool isOpen(const SharedTiles& shared) const;
  /// Calls visit for all tiles of the next level inside of open ones, as forEach().
  void forEachInside(const SharedTiles& shared, const std::function<bool(double cycles)>& accept, const Visit& visit);

  /// All options with these shared tiles, which are not open, without dominated ones and those that take more than the
  /// cycles of the limit, or occupy the ports of the outermost memory for longer.
  std::vector<PhaseOption> options(const SharedTiles& shared, const PhaseCost& limit);

  v1::Tile tree(const SharedTiles& shared, const std::vector<const Partial*>& operators) const;
  v1::Tile tree(const SharedTiles& shared, const std::vector<OperatorTiles>& operators) const;

  /// Loops that tiles shared by the statements may cut; `running`: also running reductions.
  std::vector<int> sharedLoops(int begin, int end, bool running) const;
  bool cutsRunningReduction(const SharedTiles& shared) const;
  /// The iterations that the shared tiles leave to each operator, one number for each loop of the nest. Empty if the
  /// tiles are not valid.
  std::vector<Extents> extentsInside(const SharedTiles& shared) const;

  int64_t measured() const;

 private:
  struct Skeleton;
  /// The statements of a phase as a problem of their own.
  struct Part {
    loopnest::Nest nest;
    std::vector<std::string> read_outside;  ///< tensors that other phases read
  };
  struct Enumeration {
    int split = 0;  ///< level of the tile that joins
    std::vector<int> loops;
    Movers movers;
    size_t stride = 1;
    const std::function<bool(double)>& accept;
    const Visit& visit;
    Section section = {};
    size_t* cut = nullptr;  ///< null: tiles further inside only
    size_t seen = 0, seen_outside = 0, visited = 0;
    bool isEnough() const { return stride > 1 && visited >= kMaxSampled; }
  };
  void visitTiles(SharedTiles& shared, Enumeration& enumeration, const Extents& extents);
  const Part& partOf(int begin, int end) const;
  /// Cycles if every instance inside of the shared tiles works all the time: of the operations, or also of the ports
  /// that operands and results pass.
  double computeCycles(const SharedTiles& shared, bool operands) const;
  /// Null if the tree is not valid or exceeds a capacity, or needs more instances or units than the chip has. The
  /// measure of open tiles leaves out all tiles further inside.
  std::unique_ptr<Skeleton> measure(const SharedTiles& shared) const;
  void addTransfers(const SharedTiles& shared, const cost::BoundTree& bound,
                    const std::vector<cost::Boundary>& boundaries, int tile, int last_child, Skeleton& skeleton) const;
  PhaseCost lowerBound(const SharedTiles& shared, const Skeleton& skeleton) const;
  /// Figures of the operators inside of shared tiles, over all steps.
  struct Inside {
    double cycles = 0, energy = 0;
    double compute = 0;  ///< cycles of full units at least
    double edges = 0;    ///< cycles of first slices and last results inside, which nothing overlaps
  };
  PhaseCost total(const SharedTiles& shared, const Skeleton& skeleton, const Inside& inside) const;
  /// Whether the next statement reads the result of this one.
  bool readsResultOf(int statement) const;
  /// Startup and tail that an operator by itself may have within the limit.
  double edgesLimit(const SharedTiles& shared, const Skeleton& skeleton, const PhaseCost& limit) const;
  v1::Tile shellOf(const SharedTiles& shared, int first_nest) const;
  void addLoops(v1::Tile& tile, const TileLoops& loops) const;
  int64_t capacityOf(int level) const;
  OperatorFronts& frontsOf(int statement, bool alone);

  const loopnest::Nest& nest_;
  cost::Machine machine_;
  const Figures figures_;
  const Restriction restriction_;
  const std::function<bool()> stopped_;
  std::vector<bool> windows_;
  Needed needed_;
  /// computeCycles() of each statement, by the spatial counts around it.
  struct Work {
    double operations = 0, read = 0, written = 0;  ///< cycles
  };
  mutable absl::flat_hash_map<std::vector<int64_t>, std::vector<Work>> compute_cycles_;
  mutable std::map<std::pair<int, int>, Part> parts_;
  std::map<std::pair<int, bool>, std::unique_ptr<OperatorFronts>> fronts_;
};

}  // namespace tessera::compiler::dataflow_search
