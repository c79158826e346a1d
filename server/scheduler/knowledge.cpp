#include "server/scheduler/knowledge.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
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
constexpr size_t kOfWorkload = 4, kOfOtherChips = 2, kOfSimilar = 4;  // trees that are tried first
constexpr int kLookSimilar = 1000;                                    // records with the same first operator

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

/// The operators of a summary with '#' for each number, and the numbers.
std::pair<std::string, std::vector<double>> shapeOf(const std::string& summary) {
  std::string operators;
  std::vector<double> numbers;
  bool in_number = false;
  for (const char c : summary) {
    const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
    // A digit within a name ("conv2d") is part of it.
    const bool of_name = digit && !in_number && !operators.empty() && absl::ascii_isalpha(operators.back()) &&
                         operators.back() != 'x' && operators.back() != 's';
    if (digit && !of_name) {
      if (!in_number) {
        operators.push_back('#');
        numbers.push_back(0);
      }
      numbers.back() = 10 * numbers.back() + (c - '0');
    } else {
      operators.push_back(c);
    }
    in_number = digit && !of_name;
  }
  return {operators, numbers};
}

/// Adds a record's tree where it is new.
bool add(const v1::TuningRecord& record, bool same_workload, bool try_first, std::set<std::string>& seen,
         v1::KnownTrees& known) {
  if (!seen.insert(canonicalBytes(record.schedule())).second) {
    return false;
  }
  v1::KnownTrees::Tree& tree = *known.add_trees();
  *tree.mutable_schedule() = record.schedule();
  tree.set_speed(record.baseline_ms() > 0 ? record.baseline_ms() / record.median_ms() : 0);
  tree.set_same_workload(same_workload);
  tree.set_try_first(try_first);
  return true;
}

/// Records of the project that were right and faster than their default, the fastest first.
absl::StatusOr<std::vector<v1::TuningRecord>> faster(storage::Reader& reader, const std::string& project,
                                                     const std::string& condition, int look) {
  storage::ListQuery list;
  list.project = project;
  list.page_size = look;
  list.filter = absl::StrCat(condition, " AND median_ms > 0 AND outcome = PASSED AND speed > ", kLeastGain);
  list.order_by = "speed desc";
  TESSERA_ASSIGN(storage::Page<v1::TuningRecord> page, reader.listRecords(list));
  std::erase_if(page.items, [](const v1::TuningRecord& record) { return !record.has_schedule(); });
  return std::move(page.items);
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

std::optional<double> shapeDistance(const std::string& one, const std::string& other) {
  const auto [operators, numbers] = shapeOf(one);
  const auto [other_operators, other_numbers] = shapeOf(other);
  if (operators != other_operators) {
    return std::nullopt;
  }
  double distance = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    distance += std::abs(std::log((numbers[i] + 1) / (other_numbers[i] + 1)));
  }
  return distance;
}

absl::StatusOr<v1::KnownTrees> worthTrying(storage::Reader& reader, const KnowledgeQuery& query,
                                           const std::string& summary) {
  v1::KnownTrees known;
  std::set<std::string> seen;
  const auto addUpTo = [&](size_t most, bool same_workload, const std::vector<v1::TuningRecord>& records) {
    for (const v1::TuningRecord& record : records) {
      most -= most > 0 && add(record, same_workload, true, seen, known) ? 1 : 0;
    }
  };
  TESSERA_ASSIGN(const std::vector<v1::TuningRecord> records, timed(reader, query, "", "median_ms"));
  addUpTo(kOfWorkload, true, records);
  const std::string chip = compiler::targetHash(query.target), threads = absl::StrCat(" AND threads = ", query.threads);
  TESSERA_ASSIGN(
      std::vector<v1::TuningRecord> elsewhere,
      faster(reader, query.project,
             absl::StrCat("workload = ", quoted(query.workload_hash), threads, " AND NOT chip = ", quoted(chip)),
             kLook));
  std::erase_if(elsewhere, [](const v1::TuningRecord& record) { return record.target_hash().empty(); });
  addUpTo(kOfOtherChips, true, elsewhere);
  std::string first = quoted(summary.substr(0, summary.find(' ')));
  first.insert(first.size() - 1, "*");
  TESSERA_ASSIGN(std::vector<v1::TuningRecord> similar,
                 faster(reader, query.project, absl::StrCat("summary = ", first, threads), kLookSimilar));
  std::erase_if(similar, [&](const v1::TuningRecord& record) {
    return record.workload_hash() == query.workload_hash || !shapeDistance(summary, record.workload_summary());
  });
  std::ranges::sort(similar, {}, [&](const v1::TuningRecord& record) {
    return std::make_tuple(!record.target_hash().empty() && record.target_hash() != chip,
                           *shapeDistance(summary, record.workload_summary()),
                           record.median_ms() / record.baseline_ms(), record.id());
  });
  addUpTo(kOfSimilar, false, similar);
  for (const v1::TuningRecord& record : records) {
    add(record, true, false, seen, known);
  }
  return known;
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
