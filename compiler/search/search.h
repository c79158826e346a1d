#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/search/features.h"
#include "compiler/search/legality.h"
#include "compiler/search/space.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::search {

/// A tree to try, and its origin.
struct Candidate {
  v1::Schedule schedule;
  /// The step from the point `start` to this tree. Empty kind: the tree was suggested, or is several steps away.
  Direction direction;
  size_t start = 0;  ///< position in Search::points_
};

/// The result of a trial: the speed relative to the default, with both measured alternately. 0: refused, wrong result,
/// or crash.
struct Outcome {
  double speed = 0;
};

/// A measurement from another search, of this workload or of a similar one.
struct Sample {
  v1::Schedule schedule;
  double speed = 0;           ///< relative to that workload's default; 0: it failed, or was not compared
  bool same_workload = true;  ///< otherwise the applicable parts of its tree are transferred (transfer.h)
  bool try_first = false;     ///< tried before anything else, in this order
};

struct SearchOptions {
  uint64_t seed = 0;
  Extents extents = {};             ///< of the workload's loops, where they are known
  v1::RegisterFile registers = {};  ///< of the chip, as far as they are known
  std::vector<Sample> known = {};   ///< measurements of others; all of them train method "model"
};

/// The search for one workload's best tree: alternates between proposing trees and observing outcomes. Equal seeds and
/// outcomes give equal proposals. After FlexTensor (thesis, 4.4). Not thread-safe.
class Search {
 public:
  virtual ~Search() = default;

  /// Proposes this tree before anything else, after the samples with try_first.
  void suggest(const v1::Schedule& schedule);

  /// The next tree not proposed before; none when all neighbours of working trees have been proposed.
  std::optional<Candidate> propose();
  void observe(const Candidate& candidate, Outcome outcome);

  /// The fastest tree observed: the default unless another one was faster.
  const v1::Schedule& best() const { return points_[best_].schedule; }
  double speed() const { return points_[best_].speed; }
  int trials() const { return trials_; }

 protected:
  Search(const v1::Schedule& start, const SearchOptions& options);

  struct Point {
    v1::Schedule schedule;
    double speed = 1;
    Features features;
    bool expanded = false;
    std::vector<Neighbour> open = {};  ///< untried neighbours, once expanded
  };
  /// The point from which to continue: one of `points` (at least one), which may have untried neighbours.
  virtual size_t chooseStart(const std::vector<size_t>& points) { return sampleStart(points); }
  /// The untried neighbour of `point` to try next, out of at least one.
  virtual size_t chooseNeighbour(size_t point, const std::vector<Neighbour>& open) = 0;
  /// A tree that is not a neighbour of a point; called before a start is chosen.
  virtual std::optional<Candidate> proposeNonNeighbour() { return std::nullopt; }
  /// Learns from the outcome of a candidate. `reward` is the gain (E_e - E_p) / E_p, where E_p is the speed of the
  /// candidate's start and E_e that of the candidate (thesis, 4.4); kRefused if the candidate failed. A candidate that
  /// succeeded is the last of points_.
  virtual void learn(const Candidate& candidate, double reward) {}

  /// Draws a start p with a probability proportional to exp(-gamma (E* - E_p) / E*), where E* is the best speed and E_p
  /// the speed of p (thesis, 4.4).
  size_t sampleStart(const std::vector<size_t>& points);
  /// The fastest points, at most `most`; among equally fast ones the earlier trial first.
  std::vector<size_t> fastest(size_t most) const;
  /// Neighbours that Legality does not refuse.
  std::vector<Neighbour> legalNeighbours(const v1::Schedule& schedule) const;
  /// Untried neighbours of a point; computed on first use.
  const std::vector<Neighbour>& openOf(size_t point);
  bool visited(const std::string& text) const { return visited_.contains(text); }

  static constexpr double kRefused = -1;

  std::vector<Point> points_;
  size_t best_ = 0;
  std::mt19937_64 random_;
  Legality legality_;

 private:
  void addPoint(const v1::Schedule& schedule, double speed);
  std::optional<Candidate> take(Candidate candidate, const std::string& text);

  std::vector<v1::Schedule> suggested_;
  std::set<std::string> visited_;  ///< printed form
  int trials_ = 0;
};

/// INVALID_ARGUMENT if the method is not one of kSearchMethods (proto/messages/search_methods.h).
absl::StatusOr<std::unique_ptr<Search>> makeSearch(const std::string& method, const v1::Schedule& start,
                                                   const SearchOptions& options);
absl::StatusOr<std::unique_ptr<Search>> makeSearch(const std::string& method, const v1::Schedule& start, uint64_t seed);

}  // namespace tessera::compiler::search
