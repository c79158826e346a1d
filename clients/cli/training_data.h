#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/npy.h"

namespace tessera::client {

/// The examples of a training, in batches: rows of arrays, whose order is a function of the seed and the step alone, so
/// that a resumed training reads what an uninterrupted one would.
class TrainingData {
 public:
  /// `arrays` has one array for each of `inputs`, by name: the input's shape, but any number of rows that is at least
  /// the input's. INVALID_INPUT for other arrays.
  static absl::StatusOr<TrainingData> create(std::map<std::string, Tensor> arrays,
                                             const std::vector<v1::TensorSpec>& inputs, uint64_t seed, bool shuffle);

  int64_t rows() const { return rows_; }
  int64_t batch() const { return batch_; }
  /// Copies input `index` of step `step`, counted from 0, to `to`. Each epoch has rows() / batch() steps, in a new
  /// order of the rows; the remaining rows are left out.
  void copyBatch(int64_t step, size_t index, char* to);

 private:
  /// The order of the rows in an epoch.
  const std::vector<int64_t>& order(int64_t epoch);

  std::vector<std::string> bytes_;  // per input
  std::vector<int64_t> row_bytes_;
  int64_t rows_ = 0, batch_ = 0;
  uint64_t seed_ = 0;
  bool shuffle_ = true;
  int64_t epoch_ = -1;  // of order_
  std::vector<int64_t> order_;
};

}  // namespace tessera::client
