#include "compiler/search/cost_model.h"

#include <xgboost/c_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::search {
namespace {

constexpr int kRounds = 40;
constexpr std::array<std::pair<const char*, const char*>, 9> kParameters = {{{"objective", "reg:squarederror"},
                                                                             {"tree_method", "exact"},
                                                                             {"max_depth", "4"},
                                                                             {"eta", "0.2"},
                                                                             {"min_child_weight", "1"},
                                                                             {"base_score", "0"},
                                                                             {"nthread", "1"},
                                                                             {"subsample", "0.7"},
                                                                             {"verbosity", "0"}}};

absl::Status check(int result) {
  if (result == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the cost model (XGBoost): ", XGBGetLastError()));
}

/// The features in which the rows differ, or one feature if they do not. Most features are constant among the trees of
/// one workload, and XGBoost would spend time on them.
std::vector<size_t> telling(const std::vector<const Features*>& rows) {
  std::vector<size_t> columns;
  for (size_t column = 0; column < featureCount(); ++column)
    if (std::ranges::any_of(rows, [&](const Features* row) { return (*row)[column] != (*rows[0])[column]; }))
      columns.push_back(column);
  if (columns.empty()) columns.push_back(0);
  return columns;
}

absl::StatusOr<DMatrixHandle> matrixOf(const std::vector<const Features*>& rows, const std::vector<size_t>& columns) {
  std::vector<float> values;
  for (const Features* row : rows)
    for (const size_t column : columns) values.push_back((*row)[column]);
  DMatrixHandle matrix = nullptr;
  TESSERA_RETURN_IF_ERROR(check(XGDMatrixCreateFromMat(values.data(), rows.size(), columns.size(),
                                                       std::numeric_limits<float>::quiet_NaN(), &matrix)));
  return matrix;
}

}  // namespace

absl::StatusOr<CostModel> CostModel::fit(const std::vector<Example>& examples, int seed) {
  if (examples.empty()) return absl::InvalidArgumentError("a cost model needs examples to learn from");
  std::vector<const Features*> rows;
  std::vector<float> labels;
  for (const Example& example : examples) {
    rows.push_back(&example.features);
    labels.push_back(static_cast<float>(example.log_speed));
  }
  std::vector<size_t> columns = telling(rows);
  TESSERA_ASSIGN_OR_RETURN(auto matrix, matrixOf(rows, columns));
  const absl::Cleanup free = [&] { XGDMatrixFree(matrix); };
  absl::Status status = check(XGDMatrixSetFloatInfo(matrix, "label", labels.data(), labels.size()));
  BoosterHandle booster = nullptr;
  if (status.ok()) status = check(XGBoosterCreate(&matrix, 1, &booster));
  if (!status.ok()) return status;
  CostModel model(booster, std::move(columns));
  for (const auto& [name, value] : kParameters)
    if (status = check(XGBoosterSetParam(booster, name, value)); !status.ok()) return status;
  if (status = check(XGBoosterSetParam(booster, "seed", absl::StrCat(seed).c_str())); !status.ok()) return status;
  for (int round = 0; round < kRounds; ++round)
    if (status = check(XGBoosterUpdateOneIter(booster, round, matrix)); !status.ok()) return status;
  return model;
}

CostModel::CostModel(CostModel&& other) noexcept
    : booster_(std::exchange(other.booster_, nullptr)), columns_(std::move(other.columns_)) {}

CostModel& CostModel::operator=(CostModel&& other) noexcept {
  std::swap(booster_, other.booster_);
  std::swap(columns_, other.columns_);
  return *this;
}

CostModel::~CostModel() {
  if (booster_ != nullptr) XGBoosterFree(booster_);
}

absl::StatusOr<std::vector<float>> CostModel::predict(const std::vector<const Features*>& trees) const {
  if (trees.empty()) return std::vector<float>();
  TESSERA_ASSIGN_OR_RETURN(auto matrix, matrixOf(trees, columns_));
  const absl::Cleanup free = [&] { XGDMatrixFree(matrix); };
  bst_ulong count = 0;
  const float* answer = nullptr;
  TESSERA_RETURN_IF_ERROR(check(XGBoosterPredict(booster_, matrix, 0, 0, 0, &count, &answer)));
  return std::vector<float>(answer, answer + count);
}

}  // namespace tessera::compiler::search
