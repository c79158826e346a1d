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

/// What tuning records say about a workload on a chip.
namespace tessera::server {

struct KnowledgeQuery {
  std::string project;  ///< whose records
  std::string workload_hash;
  const v1::Target& target;
  int threads = 1;
  int64_t until_us = INT64_MAX;  ///< later records do not count
};

/// What other searches know of a workload with this summary. To be tried first, one record for each tree: the fastest
/// of the workload itself, on this chip and then on others; and the fastest of workloads with the same operators whose
/// shapes are nearest. Behind them, to learn from, what else the workload's records say.
absl::StatusOr<v1::KnownTrees> warmStartCandidates(storage::Reader& reader, const KnowledgeQuery& query,
                                                   const std::string& summary);

/// How far the shapes of two workloads are apart, by their summaries: the numbers' ratios, as logarithms, added up;
/// nothing where the operators differ.
std::optional<double> shapeDistance(const std::string& one, const std::string& other);

/// The record whose tree a compilation should take: measured in turns with the default, right, and at least
/// `least_gain` times as fast; those that were confirmed before those that were tried once. No id: there is none.
/// Equal records, equal answer.
absl::StatusOr<v1::TuningRecord> bestKnown(storage::Reader& reader, const KnowledgeQuery& query, double least_gain);

/// What was measured of an open choice (its hash is the query's): the newest record has the say. No id: there is none.
absl::StatusOr<v1::TuningRecord> knownAnswer(storage::Reader& reader, const KnowledgeQuery& query);

/// Whether it says that the choice is to be made the other way: right, and faster beyond the noise.
bool isFaster(const v1::TuningRecord& answer);

/// Whether a compilation takes trees of records.
bool wantsKnowledge(const v1::CompileSpec& spec);

/// Those of a plan's open choices that records say are to be made the other way, as pins.
absl::StatusOr<std::vector<v1::Choice>> knownChoices(storage::Reader& reader, const std::string& project,
                                                     const v1::Knowledge& knowledge, const v1::Target& target,
                                                     const v1::PlanTaskResult& plan);

/// The best known trees of a plan's workloads. Equal records and, with a snapshot, all later ones too: equal trees.
absl::StatusOr<v1::Pins> knownTrees(storage::Reader& reader, const std::string& project, const v1::Knowledge& knowledge,
                                    const v1::Target& target, const v1::PlanTaskResult& plan);

}  // namespace tessera::server
