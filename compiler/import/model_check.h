#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::compiler {

/// Collects the problems of a model for an importer that continues after a problem. The results of a failed node get
/// their declared type, or an unknown one; nodes that read an unknown value are skipped.
class ModelCheck {
 public:
  /// Position of problems before the first node; nodes count from 0.
  static constexpr int kBeforeNodes = -1;
  static constexpr int kAfterNodes = INT32_MAX;

  /// `stand_in`: the assumed size of unbound dimensions, except leading ones, which are assumed to be 1.
  explicit ModelCheck(int64_t stand_in) : stand_in_(stand_in) {}

  /// Sets the current node of the main graph, or one of the constants above.
  void setPosition(int position) { position_ = position; }

  /// Adds a problem, unless it is known already or `status` only refers to another problem.
  void add(const absl::Status& status);

  /// Returns an assumed size for an unbound dimension, and records the assumption. `position` is the dimension's
  /// position in the shape of `input`. `unbound`, the error that an import would return, is added to the problems.
  int64_t assume(const std::string& input, const std::string& dimension, int position, const absl::Status& unbound);

  /// Counts a node of the main graph that reads an unknown value.
  void countUnchecked() { ++unchecked_; }

  /// Returns the number of problems other than unbound dimensions: these remain when all dimensions are bound.
  int real() const { return real_; }
  bool hasAssumptions() const { return !assumed_.empty(); }

  /// Fills in problems, unbound dimensions, assumptions and the number of unchecked nodes.
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
  std::set<std::string> seen_;  ///< identities of known problems
  std::vector<v1::DimensionBinding> assumed_;
};

/// Returned by a lowering whose operand is unknown because of an earlier problem.
absl::Status dependsOnProblem();
bool isDependence(const absl::Status& status);

}  // namespace tessera::compiler
