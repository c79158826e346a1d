#include "clients/cli/training_data.h"

#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/messages/failure.h"
#include "proto/messages/tensor_text.h"

namespace tessera::client {
namespace {

absl::Status misfit(const std::string& message, const std::string& attribute, const std::string& found,
                    const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(message);
  failure.set_attribute(attribute);
  failure.set_found(found);
  failure.set_accepted(accepted);
  return failureStatus(failure);
}

/// Whether the array has the input's type and shape, except for the number of rows.
bool hasRowsOf(const v1::TensorSpec& array, const v1::TensorSpec& input) {
  if (array.dtype() != input.dtype() || array.shape_size() != input.shape_size() || input.shape_size() == 0)
    return false;
  for (int d = 1; d < input.shape_size(); ++d)
    if (array.shape(d) != input.shape(d)) return false;
  return true;
}

}  // namespace

absl::StatusOr<TrainingData> TrainingData::create(std::map<std::string, Tensor> arrays,
                                                  const std::vector<v1::TensorSpec>& inputs, uint64_t seed,
                                                  bool shuffle) {
  TrainingData data;
  data.seed_ = seed;
  data.shuffle_ = shuffle;
  for (const v1::TensorSpec& input : inputs) {
    const auto found = arrays.find(input.name());
    if (found == arrays.end())
      return misfit(absl::StrCat("the data have no array '", input.name(), "'"), input.name(),
                    absl::StrJoin(arrays, ", ", [](std::string* out, const auto& each) { *out += each.first; }),
                    tensorText(input));
    const v1::TensorSpec& spec = found->second.spec;
    if (!hasRowsOf(spec, input))
      return misfit(absl::StrCat("array '", input.name(), "' of the data does not fit the input"), input.name(),
                    tensorText(spec), absl::StrCat(tensorText(input), " with any number of rows"));
    if (data.bytes_.empty()) {
      data.rows_ = spec.shape(0);
      data.batch_ = input.shape(0);
    }
    if (spec.shape(0) != data.rows_ || input.shape(0) != data.batch_)
      return misfit("the arrays or inputs differ in their number of rows", input.name(),
                    absl::StrCat(spec.shape(0), " and ", data.rows_), "one number of rows for all arrays");
    data.row_bytes_.push_back(data.rows_ == 0 ? 0 : static_cast<int64_t>(found->second.bytes.size()) / data.rows_);
    data.bytes_.push_back(std::move(found->second.bytes));
    arrays.erase(found);
  }
  if (!arrays.empty())
    return misfit(absl::StrCat("the step has no input '", arrays.begin()->first, "'"), arrays.begin()->first,
                  arrays.begin()->first,
                  absl::StrJoin(inputs, ", ", [](std::string* out, const auto& each) { *out += each.name(); }));
  if (data.batch_ < 1 || data.rows_ < data.batch_)
    return misfit("the data have too few rows", "data", absl::StrCat(data.rows_),
                  absl::StrCat("at least ", data.batch_, ", the rows of a batch"));
  return data;
}

const std::vector<int64_t>& TrainingData::order(int64_t epoch) {
  if (epoch == epoch_) return order_;
  epoch_ = epoch;
  order_.resize(static_cast<size_t>(rows_));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  if (!shuffle_) return order_;
  // Fisher and Yates; the standard's shuffle has another result in each library.
  std::mt19937_64 random(seed_ * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(epoch));
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[static_cast<size_t>(random() % i)]);
  return order_;
}

void TrainingData::copyBatch(int64_t step, size_t index, char* to) {
  const int64_t steps = rows_ / batch_;
  const std::vector<int64_t>& rows = order(step / steps);
  const int64_t first = step % steps * batch_, bytes = row_bytes_[index];
  for (int64_t i = 0; i < batch_; ++i)
    std::memcpy(to + i * bytes, bytes_[index].data() + rows[static_cast<size_t>(first + i)] * bytes,
                static_cast<size_t>(bytes));
}

}  // namespace tessera::client
