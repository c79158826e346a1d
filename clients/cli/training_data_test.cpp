#include "clients/cli/training_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tessera::client {
namespace {

v1::TensorSpec spec(const std::string& name, v1::DataType dtype, const std::vector<int64_t>& shape) {
  v1::TensorSpec result;
  result.set_name(name);
  result.set_dtype(dtype);
  for (const int64_t extent : shape) result.add_shape(extent);
  return result;
}

/// Rows 0, 1, 2, ... of two elements each, as labels of one.
std::map<std::string, Tensor> arrays(int64_t rows) {
  std::vector<int64_t> pairs, labels;
  for (int64_t row = 0; row < rows; ++row) {
    pairs.insert(pairs.end(), {row, -row});
    labels.push_back(row);
  }
  const auto bytes = [](const std::vector<int64_t>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  };
  return {{"x", {spec("x", v1::DATA_TYPE_I64, {rows, 2}), bytes(pairs)}},
          {"labels", {spec("labels", v1::DATA_TYPE_I64, {rows}), bytes(labels)}}};
}

std::vector<v1::TensorSpec> inputs(int64_t batch) {
  return {spec("x", v1::DATA_TYPE_I64, {batch, 2}), spec("labels", v1::DATA_TYPE_I64, {batch})};
}

std::vector<int64_t> labelsOf(TrainingData& data, int64_t step) {
  std::vector<int64_t> pairs(static_cast<size_t>(2 * data.batch())), labels(static_cast<size_t>(data.batch()));
  data.copyBatch(step, 0, reinterpret_cast<char*>(pairs.data()));
  data.copyBatch(step, 1, reinterpret_cast<char*>(labels.data()));
  for (size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(pairs[2 * i], labels[i]) << "row " << i << " of step " << step;
    EXPECT_EQ(pairs[2 * i + 1], -labels[i]);
  }
  return labels;
}

TEST(TrainingData, ReadsEachRowOnceAnEpoch) {
  auto data = TrainingData::create(arrays(11), inputs(3), 7, /*shuffle=*/true);
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t>& rows = epochs.emplace_back();
    for (int64_t step = 0; step < 3; ++step)
      for (const int64_t label : labelsOf(*data, epoch * 3 + step)) rows.push_back(label);
    EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 9u);
    EXPECT_FALSE(std::is_sorted(rows.begin(), rows.end()));
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(TrainingData, TheOrderFollowsFromSeedAndStep) {
  auto whole = TrainingData::create(arrays(20), inputs(4), 1, true);
  auto resumed = TrainingData::create(arrays(20), inputs(4), 1, true);
  auto other = TrainingData::create(arrays(20), inputs(4), 2, true);
  auto in_order = TrainingData::create(arrays(20), inputs(4), 1, false);
  ASSERT_TRUE(whole.ok() && resumed.ok() && other.ok() && in_order.ok());
  for (int64_t step = 0; step < 7; ++step) labelsOf(*whole, step);
  EXPECT_EQ(labelsOf(*whole, 7), labelsOf(*resumed, 7));
  EXPECT_NE(labelsOf(*whole, 7), labelsOf(*other, 7));
  EXPECT_EQ(labelsOf(*in_order, 6), (std::vector<int64_t>{4, 5, 6, 7}));
}

TEST(TrainingData, RefusesOtherArrays) {
  const auto message = [](std::map<std::string, Tensor> given, int64_t batch) {
    return std::string(TrainingData::create(std::move(given), inputs(batch), 0, true).status().message());
  };
  auto missing = arrays(8), extra = arrays(8), typed = arrays(8), short_one = arrays(8);
  missing.erase("labels");
  extra["z"] = extra["x"];
  typed["x"].spec.set_dtype(v1::DATA_TYPE_F64);
  short_one["labels"].spec.set_shape(0, 7);
  EXPECT_NE(message(missing, 2).find("no array 'labels'"), std::string::npos) << message(missing, 2);
  EXPECT_NE(message(extra, 2).find("no input 'z'"), std::string::npos) << message(extra, 2);
  EXPECT_NE(message(typed, 2).find("does not fit the input"), std::string::npos) << message(typed, 2);
  EXPECT_NE(message(short_one, 2).find("number of rows"), std::string::npos) << message(short_one, 2);
  EXPECT_NE(message(arrays(8), 9).find("too few rows"), std::string::npos) << message(arrays(8), 9);
}

}  // namespace
}  // namespace tessera::client
