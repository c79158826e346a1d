#include "server/scheduler/knowledge.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/pins.h"
#include "compiler/target/target.h"
#include "server/canonical.h"
#include "server/scheduler/trial_records.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

constexpr int kLook = 200;           // records of a workload, the first of their order
constexpr double kLeastGain = 1.01;  // over the default, below which its tree is as good

bool failed(const v1::TuningRecord& record) {
  switch (record.outcome()) {
    case v1::TuningRecord::OUTCOME_UNSPECIFIED:
    case v1::TuningRecord::UNCHECKED:
    case v1::TuningRecord::PASSED:
      return false;
    default:
      return true;
  }
}

/// A value of a filter that stands for itself.
std::string quoted(const std::string& text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"' || c == '*') {
      value.push_back('\\');
    }
    value.push_back(c);
  }
  return value + "\"";
}

/// Records of the workload on this chip that were timed and did not fail, the first of those that `condition`, a
/// filter, selects too.
absl::StatusOr<std::vector<v1::TuningRecord>> timed(storage::Reader& reader, const KnowledgeQuery& query,
                                                    const std::string& condition, const char* order_by) {
  storage::ListQuery list;
  list.page_size = kLook;
  list.project = query.project;
  list.filter = absl::StrCat("workload = ", quoted(query.workload_hash), " AND target = ", quoted(query.target.name()),
                             " AND threads = ", query.threads, " AND median_ms > 0", condition);
  if (query.until_us != INT64_MAX) {  // later ones would push earlier ones out of the fastest
    absl::StrAppend(&list.filter, " AND create_time <= ", query.until_us);
  }
  list.order_by = order_by;
  TESSERA_ASSIGN(storage::Page<v1::TuningRecord> page, reader.listRecords(list));
  const std::string chip = compiler::targetHash(query.target);
  std::vector<v1::TuningRecord> records;
  for (v1::TuningRecord& record : page.items) {
    const bool same_chip = record.target_hash().empty() || record.target_hash() == chip;
    if (same_chip && !failed(record) && record.has_schedule()) {
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace

absl::StatusOr<std::vector<v1::Schedule>> worthTrying(storage::Reader& reader, const KnowledgeQuery& query, int most) {
  TESSERA_ASSIGN(const std::vector<v1::TuningRecord> records, timed(reader, query, "", "median_ms"));
  std::vector<v1::Schedule> trees;
  std::set<std::string> seen;
  for (const v1::TuningRecord& record : records) {
    if (static_cast<int>(trees.size()) < most && seen.insert(canonicalBytes(record.schedule())).second) {
      trees.push_back(record.schedule());
    }
  }
  return trees;
}

absl::StatusOr<v1::TuningRecord> bestKnown(storage::Reader& reader, const KnowledgeQuery& query, double least_gain) {
  const std::string right = " AND outcome = PASSED AND speed > 0 AND mode ";
  for (const char* is : {"= ", "!= "}) {  // those that were confirmed, then all others
    TESSERA_ASSIGN(const std::vector<v1::TuningRecord> records,
                   timed(reader, query, absl::StrCat(right, is, kConfirmedMode), "speed desc"));
    const auto rank = [](const v1::TuningRecord& record) {
      return std::make_tuple(record.baseline_ms() / record.median_ms(), record.id());
    };
    v1::TuningRecord best;
    for (const v1::TuningRecord& record : records) {
      if (record.baseline_ms() >= least_gain * record.median_ms() && (best.id().empty() || rank(record) > rank(best))) {
        best = record;
      }
    }
    if (!best.id().empty()) {
      return best;
    }
  }
  return v1::TuningRecord();
}

bool wantsKnowledge(const v1::CompileSpec& spec) {
  const v1::Knowledge::Mode mode = spec.options().knowledge().mode();
  return mode == v1::Knowledge::NEWEST || mode == v1::Knowledge::SNAPSHOT;
}

absl::StatusOr<v1::Pins> knownTrees(storage::Reader& reader, const std::string& project, const v1::Knowledge& knowledge,
                                    const v1::Target& target, const v1::PlanTaskResult& plan) {
  v1::Pins pins;
  std::set<std::string> seen;
  for (const v1::PlanTaskResult::Unit& unit : plan.units()) {
    if (!seen.insert(unit.workload_hash()).second) {
      continue;
    }
    KnowledgeQuery query{project, unit.workload_hash(), target, std::max(1, knowledge.threads())};
    if (knowledge.mode() == v1::Knowledge::SNAPSHOT) {
      query.until_us = knowledge.until_us();
    }
    TESSERA_ASSIGN(const v1::TuningRecord best, bestKnown(reader, query, kLeastGain));
    if (!best.id().empty()) {
      compiler::pinWorkload(pins, unit.workload_hash(), unit.summary(), best.schedule());
    }
  }
  return pins;
}

}  // namespace tessera::server
