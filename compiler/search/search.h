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
#include "compiler/search/space.h"

namespace tessera::compiler::search {

/// A tree to try, and where it came from.
struct Candidate {
  v1::Schedule schedule;
  Direction direction;  ///< from the point `start`; empty kind: given from outside
  size_t start = 0;
};

/// What became of one: how many times as fast as the default it is, both measured in turns. 0: refused, wrong, or it
/// crashed.
struct Outcome {
  double speed = 0;
};

/// The search for one workload's best tree: proposes, hears of the outcome, proposes again. Same seed, same answers,
/// same proposals. After FlexTensor (thesis, 4.4).
class Search {
 public:
  virtual ~Search() = default;

  /// Tries these before anything else: records of earlier searches, of this workload or of similar ones.
  void suggest(const v1::Schedule& schedule);

  /// The next tree that was not proposed before; none when everything around what works has been.
  std::optional<Candidate> propose();
  void observe(const Candidate& candidate, Outcome outcome);

  /// The fastest tree seen: the default, unless something beat it.
  const v1::Schedule& best() const { return points_[best_].schedule; }
  double speed() const { return points_[best_].speed; }

 protected:
  Search(const v1::Schedule& start, uint64_t seed);

  struct Point {
    v1::Schedule schedule;
    double speed = 1;
    std::vector<Neighbour> open;  ///< neighbours that nobody has tried
  };
  /// A point with open neighbours, and which of them.
  virtual std::pair<size_t, size_t> choose(const std::vector<size_t>& points) = 0;
  virtual void learn(const Direction&, double) {}

  std::vector<Point> points_;
  size_t best_ = 0;
  std::mt19937_64 random_;

 private:
  void addPoint(const v1::Schedule& schedule, double speed);

  std::vector<v1::Schedule> suggested_;
  std::set<std::string> visited_;  ///< printed
};

/// Methods:
///   walk    starts at a point p with probability exp(-gamma (E* - E_p) / E*), goes where directions of the same type
///           have gained most on average, now and then anywhere
///   random  any point, any direction
/// INVALID_ARGUMENT with those there are for any other name.
absl::StatusOr<std::unique_ptr<Search>> makeSearch(const std::string& method, const v1::Schedule& start, uint64_t seed);

}  // namespace tessera::compiler::search
