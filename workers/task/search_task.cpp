#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/static_analysis.h"
#include "compiler/schedule/text.h"
#include "compiler/search/search.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"
#include "tessera/v1/tuning_state.pb.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {
namespace {

using compiler::search::Candidate;
using compiler::search::Sample;
using compiler::search::Search;

constexpr int kMaxRefused = 1000;  // rejected trees per batch until the search counts as exhausted

/// FNV-1a hash of the printed trees of a batch.
class Fingerprint {
 public:
  void add(std::string_view text) {
    for (const char c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

absl::Status notReplayed(int batch) {
  return failureStatus(v1::Failure::INCOMPATIBLE_HOST,
                       absl::StrCat("batch ", batch,
                                    " of the search's log cannot be replayed: this host proposes other trees than the "
                                    "host that started the search"));
}

/// Trees from other searches: the second input, if there is one.
absl::StatusOr<std::vector<Sample>> knownTrees(const TaskContext& task) {
  std::vector<Sample> samples;
  if (task.spec().inputs_size() < 2) return samples;
  TESSERA_ASSIGN_OR_RETURN(auto path, task.input(task.spec().inputs(1).sha256()));
  v1::KnownTrees known;
  TESSERA_RETURN_IF_ERROR(readMessage(path, known));
  for (const v1::KnownTrees::Tree& tree : known.trees())
    samples.push_back({tree.schedule(), tree.speed(), tree.same_workload(), tree.try_first()});
  return samples;
}

/// Replays a search from its log. Afterwards pending() lists the results of the last batch that are not known yet.
class Replay {
 public:
  explicit Replay(Search& search) : search_(search) {}

  absl::Status run(const v1::SearchLog& log) {
    for (int b = 0; b < log.batches_size(); ++b) {
      const v1::SearchLog::Batch& batch = log.batches(b);
      std::vector<Candidate> before = std::move(open_);
      TESSERA_RETURN_IF_ERROR(propose(batch, b));
      // These results became known while this batch was being proposed, so the search observed them after it.
      for (const int late : batch.pending()) {
        if (late < 0 || late >= static_cast<int>(before.size())) return notReplayed(b);
        search_.observe(before[static_cast<size_t>(late)], {log.batches(b - 1).speeds(late)});
      }
      hear(batch, b + 1 < log.batches_size() ? &log.batches(b + 1) : nullptr);
    }
    return absl::OkStatus();
  }

  const std::vector<int>& pending() const { return pending_; }

 private:
  absl::Status propose(const v1::SearchLog::Batch& batch, int number) {
    open_.clear();
    Fingerprint trees;
    for (const bool refused : batch.refused()) {
      std::optional<Candidate> candidate = search_.propose();
      if (!candidate) return notReplayed(number);
      trees.add(compiler::printSchedule(candidate->schedule));
      if (refused) {
        search_.observe(*candidate, {});
      } else {
        open_.push_back(*std::move(candidate));
      }
    }
    // A different compiler version or host may propose other trees; then the log cannot be continued.
    const bool same = trees.value() == batch.trees() && open_.size() == static_cast<size_t>(batch.speeds_size());
    return same ? absl::OkStatus() : notReplayed(number);
  }

  /// Observes the results that were known before `next` was proposed; if `next` is to be proposed now, those that are
  /// known.
  void hear(const v1::SearchLog::Batch& batch, const v1::SearchLog::Batch* next) {
    pending_.clear();
    for (int at = 0; at < static_cast<int>(open_.size()); ++at) {
      const bool late = next ? std::ranges::find(next->pending(), at) != next->pending().end() : batch.speeds(at) < 0;
      if (late) {
        pending_.push_back(at);
      } else {
        search_.observe(open_[static_cast<size_t>(at)], {batch.speeds(at)});
      }
    }
  }

  Search& search_;
  std::vector<Candidate> open_;  ///< candidates of the last batch
  std::vector<int> pending_;
};

}  // namespace

absl::StatusOr<v1::TaskResult> runSearchTask(const TaskContext& task) {
  const v1::SearchTask& spec = task.spec().search();
  TESSERA_ASSIGN_OR_RETURN(auto path, task.input(spec.unit().sha256()));
  v1::BuildUnit unit;
  TESSERA_RETURN_IF_ERROR(readMessage(path, unit));
  TESSERA_ASSIGN_OR_RETURN(auto analysis, compiler::analyzeWorkload(unit));
  TESSERA_ASSIGN_OR_RETURN(auto known, knownTrees(task));
  auto search = compiler::search::makeSearch(spec.method(), unit.schedule(),
                                             compiler::search::SearchOptions{.seed = spec.seed(),
                                                                             .extents = std::move(analysis.extents),
                                                                             .registers = unit.registers(),
                                                                             .known = std::move(known)});
  if (!search.ok()) return failureStatus(v1::Failure::INVALID_INPUT, std::string(search.status().message()));
  v1::TaskResult result;
  v1::SearchTaskResult& found = *result.mutable_search();
  v1::SearchLog::Batch& batch = *found.mutable_batch();
  const bool first = spec.log().batches().empty();
  if (first) {
    for (v1::Schedule& form : compiler::seedSchedules(unit)) *batch.add_seed_schedules() = std::move(form);
  }
  // Seed schedules are part of the log, so that a replay suggests those of the first batch.
  for (const v1::Schedule& form : (first ? batch : spec.log().batches(0)).seed_schedules()) (*search)->suggest(form);
  for (const v1::Schedule& schedule : spec.suggested()) (*search)->suggest(schedule);
  Replay replay(**search);
  TESSERA_RETURN_IF_ERROR(replay.run(spec.log()));
  batch.mutable_pending()->Assign(replay.pending().begin(), replay.pending().end());

  Fingerprint trees;
  int refused = 0;
  while (found.proposals_size() < spec.wanted() && refused < kMaxRefused) {
    std::optional<Candidate> candidate = (*search)->propose();
    if (!candidate) break;
    trees.add(compiler::printSchedule(candidate->schedule));
    *unit.mutable_schedule() = candidate->schedule;
    // Rejected trees cost no trial, but the search must learn that they were rejected.
    const bool follows = compiler::checkSchedule(unit).ok();
    batch.add_refused(!follows);
    if (!follows) {
      ++refused;
      (*search)->observe(*candidate, {});
      continue;
    }
    v1::SearchTaskResult::Proposal& proposal = *found.add_proposals();
    *proposal.mutable_schedule() = candidate->schedule;
    proposal.set_unit_file(absl::StrCat("unit-", found.proposals_size(), ".pb"));
    v1::CandidateUnit file;
    *file.mutable_unit() = unit;
    file.set_trial(absl::StrCat(spec.search(), "-", spec.log().batches_size(), "-", found.proposals_size()));
    TESSERA_RETURN_IF_ERROR(writeOutput(task, proposal.unit_file(), file, result));
  }
  batch.set_trees(trees.value());
  return result;
}

}  // namespace tessera::worker
