#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::compiler {

/// What is wrong with a model, collected by an importer that goes on after a problem: the results of a node that
/// fails are of declared or of unknown type from then on, and what reads an unknown value is not looked at.
class ModelCheck {
 public:
  /// Where a problem stands when the graph's nodes count from 0.
  static constexpr int kBeforeNodes = -1;
  static constexpr int kAfterNodes = INT32_MAX;

  /// `stand_in`: the extent taken for unbound dimensions, except for leading ones, which are taken as 1.
  explicit ModelCheck(int64_t stand_in) : stand_in_(stand_in) {}

  /// The node of the main graph that is being looked at, or one of the constants above.
  void setPosition(int position) { position_ = position; }

  /// Adds a problem, unless the same one is known or `status` only says that another problem is in the way.
  void add(const absl::Status& status);

  /// Takes an extent for a dimension that nothing binds; `unbound` is the problem that it would be to a compilation.
  int64_t assume(const std::string& input, const std::string& dimension, int position, const absl::Status& unbound);

  /// A node of the main graph that reads an unknown value.
  void countUnchecked() { ++unchecked_; }

  /// Problems that a bound dimension would not solve.
  int real() const { return real_; }
  bool hasAssumptions() const { return !assumed_.empty(); }

  /// Fills problems, unbound dimensions, assumptions and what was left unchecked.
  void write(v1::CheckReport& report) const;

 private:
  struct Problem {
    int position;
    v1::Failure failure;
  };

  const int64_t stand_in_;
  int position_ = kBeforeNodes;
  int unchecked_ = 0;
  int real_ = 0;
  int left_out_ = 0;
  std::vector<Problem> problems_;
  std::set<std::string> seen_;  ///< what tells one problem from another
  std::vector<v1::DimensionBinding> assumed_;
};

/// What a node's lowering ends with when a value it needs is unknown because of a problem found before.
absl::Status dependsOnProblem();
bool isDependence(const absl::Status& status);

}  // namespace tessera::compiler
