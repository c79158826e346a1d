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

/// A tree to try, and where it came from.
struct Candidate {
  v1::Schedule schedule;
  Direction direction;  ///< from the point `start`; empty kind: given from outside, or several steps away
  size_t start = 0;
};

/// What became of one: how many times as fast as the default it is, both measured in turns. 0: refused, wrong, or it
/// crashed.
struct Outcome {
  double speed = 0;
};

/// A measurement of another search, of this workload or of a similar one.
struct Sample {
  v1::Schedule schedule;
  double speed = 0;           ///< against that workload's default; 0: it failed, or was not compared
  bool same_workload = true;  ///< else what fits of its tree is carried over (transfer.h)
  bool try_first = false;     ///< before anything else, in this order
};

struct SearchOptions {
  uint64_t seed = 0;
  Extents extents = {};             ///< of the workload's loops, where they are known
  v1::RegisterFile registers = {};  ///< of the chip, as far as they are known
  std::vector<Sample> known = {};   ///< what others measured; all of it teaches "model"
};

/// The search for one workload's best tree: proposes, hears of the outcome, proposes again. Same seed, same answers,
/// same proposals. After FlexTensor (thesis, 4.4).
class Search {
 public:
  virtual ~Search() = default;

  /// Tries it before anything else, behind those that are known to be tried first.
  void suggest(const v1::Schedule& schedule);

  /// The next tree that was not proposed before; none when everything around what works has been.
  std::optional<Candidate> propose();
  void observe(const Candidate& candidate, Outcome outcome);

  /// The fastest tree seen: the default, unless something beat it.
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
    std::vector<Neighbour> open = {};  ///< neighbours that nobody has tried, once it is expanded
  };
  /// The point to go on from: one of `points`, which are those that may have open neighbours, at least one.
  virtual size_t chooseStart(const std::vector<size_t>& points) { return drawStart(points); }
  /// Which of the open neighbours of `point` to try, at least one.
  virtual size_t chooseNeighbour(size_t point, const std::vector<Neighbour>& open) = 0;
  /// A tree beyond the neighbours of points; asked before a start is chosen.
  virtual std::optional<Candidate> invent() { return std::nullopt; }
  /// What was gained along the candidate's direction: (E_e - E_p) / E_p; kRefused where nothing ran. The new point,
  /// where there is one, is the last.
  virtual void learn(const Candidate& candidate, double reward) {}

  /// Starts as the thesis draws them: E* the best speed, with probability exp(-gamma (E* - E_p) / E*).
  size_t drawStart(const std::vector<size_t>& points);
  /// The fastest points, `most` at most; of equally fast ones that first which was tried first.
  std::vector<size_t> fastest(size_t most) const;
  /// Neighbours that nothing speaks against.
  std::vector<Neighbour> legalNeighbours(const v1::Schedule& schedule) const;
  /// Those of a point that nobody has tried; they are found when they are first asked for.
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
  std::set<std::string> visited_;  ///< printed
  int trials_ = 0;
};

/// INVALID_ARGUMENT for what is none of kSearchMethods (proto/messages/search_methods.h).
absl::StatusOr<std::unique_ptr<Search>> makeSearch(const std::string& method, const v1::Schedule& start,
                                                   const SearchOptions& options);
absl::StatusOr<std::unique_ptr<Search>> makeSearch(const std::string& method, const v1::Schedule& start, uint64_t seed);

}  // namespace tessera::compiler::search
