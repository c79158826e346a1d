#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/store.h"
#include "tessera/v1/plan.pb.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/target.pb.h"
#include "tessera/v1/task.pb.h"
#include "tessera/v1/tuning_state.pb.h"

/// Queries of tuning records about a workload on a chip.
namespace tessera::server {

struct KnowledgeQuery {
  std::string project;  ///< owner of the records
  std::string workload_hash;
  const v1::Target& target;
  int threads = 1;
  int64_t until_us = INT64_MAX;  ///< records that were created later are ignored
};

/// A workload for comparison with others.
struct WorkloadForm {
  v1::WorkloadShape shape;
  std::string summary;  ///< compared with records of earlier releases, which have no shape
};

/// Trees that a search of the query's workload, which has this form, begins with. First one record for each tree to
/// try: the fastest records of the workload itself, on this chip, then on others; then the fastest of workloads with
/// equal operators and the nearest sizes. After them the other records of the workload, to learn from.
absl::StatusOr<v1::KnownTrees> warmStartCandidates(storage::Reader& reader, const KnowledgeQuery& query,
                                                   const WorkloadForm& form);

/// Distance of two workloads of equal operators: the sum of |log| of their dimensions' ratios. None if operators
/// differ. Compares shapes if both have one, else summaries, whose numbers are then the dimensions.
std::optional<double> shapeDistance(const WorkloadForm& one, const WorkloadForm& other);

/// The record whose tree a compilation should take: correct, measured alternating with the default, and at least
/// `min_gain` times as fast. Confirmed trees go before those that were tried once. Without an id if there is none.
/// Equal records give equal results.
absl::StatusOr<v1::TuningRecord> bestKnown(storage::Reader& reader, const KnowledgeQuery& query, double min_gain);

/// The newest measurement of an open choice, whose hash is the query's workload_hash. Without an id if there is none.
absl::StatusOr<v1::TuningRecord> newestChoiceRecord(storage::Reader& reader, const KnowledgeQuery& query);

/// Whether the measurement says that the choice should be changed: correct, and faster beyond the noise.
bool isFaster(const v1::TuningRecord& answer);

/// Whether a compilation takes decisions from records.
bool usesRecords(const v1::CompileSpec& spec);

/// Returns pins for the open choices of `plan` for which the newest measurement found the alternative faster
/// (isFaster()). Open choices are choices between forms whose predicted times are too close to decide.
absl::StatusOr<std::vector<v1::Choice>> knownChoices(storage::Reader& reader, const std::string& project,
                                                     const v1::Knowledge& knowledge, const v1::Target& target,
                                                     const v1::PlanTaskResult& plan);

/// The best known trees of a plan's workloads. Equal records give equal trees; with a snapshot, later records do not
/// matter.
absl::StatusOr<v1::Pins> knownTrees(storage::Reader& reader, const std::string& project, const v1::Knowledge& knowledge,
                                    const v1::Target& target, const v1::PlanTaskResult& plan);

}  // namespace tessera::server
