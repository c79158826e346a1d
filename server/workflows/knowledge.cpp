#include "server/workflows/knowledge.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/schedule/pins.h"
#include "compiler/target/target.h"
#include "proto/support/status_macros.h"
#include "server/canonical.h"
#include "server/workflows/trial_records.h"

namespace tessera::server {
namespace {

constexpr int kRead = 200;  // records of a workload, in the query's order
constexpr int kReadConfirmed = 1000;
constexpr double kNoises = 3;      // minimum gain of an unconfirmed record, in spreads of its times
constexpr double kMinGain = 1.01;  // minimum speed over the default
constexpr size_t kOfWorkload = 4, kOfOtherChips = 2, kOfSimilar = 4;  // trees of a warm start
constexpr int kReadSimilar = 1000;                                    // records of workloads with equal operators

/// Whether the trial failed; profiles are unchecked, not failed.
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

/// Quotes a value for a filter.
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

/// The operators of a summary with '#' for each number, and the numbers. Only for records of releases without
/// workload_shape; to be removed with the next one.
v1::WorkloadShape shapeOfSummary(const std::string& summary) {
  std::string operators;
  std::vector<int64_t> numbers;
  bool in_number = false;
  for (const char c : summary) {
    const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
    // A digit within a name ("conv2d") is part of the name.
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
  v1::WorkloadShape shape;
  shape.set_operators(operators);
  shape.mutable_dimensions()->Assign(numbers.begin(), numbers.end());
  return shape;
}

WorkloadForm formOf(const v1::TuningRecord& record) { return {record.workload_shape(), record.workload_summary()}; }

/// Speed relative to the default tree; 0 if not compared.
double speedOf(const v1::TuningRecord& record) {
  return record.median_ms() > 0 && record.baseline_ms() > 0 ? record.baseline_ms() / record.median_ms() : 0;
}

/// Adds a record's tree unless it is present.
bool add(const v1::TuningRecord& record, bool same_workload, bool try_first, std::set<std::string>& seen,
         v1::KnownTrees& known) {
  if (!seen.insert(canonicalBytes(record.schedule())).second) {
    return false;
  }
  v1::KnownTrees::Tree& tree = *known.add_trees();
  *tree.mutable_schedule() = record.schedule();
  tree.set_speed(speedOf(record));
  tree.set_same_workload(same_workload);
  tree.set_try_first(try_first);
  return true;
}

/// Records of profiles by earlier releases have an empty tree if the operator has none.
bool hasTree(const v1::TuningRecord& record) { return record.schedule().ByteSizeLong() > 0; }

/// Correct records of the project that were faster than their default, fastest first.
absl::StatusOr<std::vector<v1::TuningRecord>> faster(storage::Reader& reader, const std::string& project,
                                                     const std::string& condition, int look) {
  storage::ListQuery list;
  list.project = project;
  list.page_size = look;
  list.filter = absl::StrCat(condition, " AND median_ms > 0 AND outcome = PASSED AND speed > ", kMinGain);
  list.order_by = "speed desc";
  TESSERA_ASSIGN_OR_RETURN(storage::Page<v1::TuningRecord> page, reader.listRecords(list));
  std::erase_if(page.items, [](const v1::TuningRecord& record) { return !hasTree(record); });
  return std::move(page.items);
}

/// Records, faster than their default, of other workloads with the operators of `form`.
absl::StatusOr<std::vector<v1::TuningRecord>> similarTo(storage::Reader& reader, const KnowledgeQuery& query,
                                                        const WorkloadForm& form) {
  const std::string threads = absl::StrCat(" AND threads = ", query.threads);
  std::string first_word = quoted(form.summary.substr(0, form.summary.find(' ')));
  first_word.insert(first_word.size() - 1, "*");
  const std::string& operators = form.shape.operators();
  // Records of earlier releases have a summary only.
  TESSERA_ASSIGN_OR_RETURN(
      std::vector<v1::TuningRecord> similar,
      faster(reader, query.project,
             absl::StrCat("summary = ", first_word, operators.empty() ? "" : " AND operators = \"\"", threads),
             kReadSimilar));
  if (!operators.empty()) {
    TESSERA_ASSIGN_OR_RETURN(
        const std::vector<v1::TuningRecord> equal,
        faster(reader, query.project, absl::StrCat("operators = ", quoted(operators), threads), kReadSimilar));
    similar.insert(similar.end(), equal.begin(), equal.end());
  }
  std::erase_if(similar, [&](const v1::TuningRecord& record) {
    return record.workload_hash() == query.workload_hash || !shapeDistance(form, formOf(record));
  });
  return similar;
}

/// Returns the first `look` records of the workload on this chip that the filter `condition` selects.
absl::StatusOr<std::vector<v1::TuningRecord>> recordsWith(storage::Reader& reader, const KnowledgeQuery& query,
                                                          const std::string& condition, const char* order_by,
                                                          int look) {
  storage::ListQuery list;
  list.page_size = look;
  list.project = query.project;
  list.filter = absl::StrCat("workload = ", quoted(query.workload_hash), " AND target = ", quoted(query.target.name()),
                             " AND threads = ", query.threads, condition);
  if (query.until_us != INT64_MAX) {  // without it, later records would displace earlier ones among the first `look`
    absl::StrAppend(&list.filter, " AND create_time <= ", query.until_us);
  }
  list.order_by = order_by;
  TESSERA_ASSIGN_OR_RETURN(storage::Page<v1::TuningRecord> page, reader.listRecords(list));
  const std::string chip = compiler::targetHash(query.target);
  std::erase_if(page.items, [&](const v1::TuningRecord& record) {
    return !record.target_hash().empty() && record.target_hash() != chip;
  });
  return std::move(page.items);
}

/// Those records with a tree that were timed and have not failed.
absl::StatusOr<std::vector<v1::TuningRecord>> timed(storage::Reader& reader, const KnowledgeQuery& query,
                                                    const std::string& condition, const char* order_by) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::TuningRecord> records,
                           recordsWith(reader, query, absl::StrCat(" AND median_ms > 0", condition), order_by, kRead));
  std::erase_if(records, [](const v1::TuningRecord& record) { return failed(record) || !hasTree(record); });
  return records;
}

/// Query for one workload or choice, with the snapshot's time.
KnowledgeQuery queryFor(const std::string& project, const std::string& hash, const v1::Target& target,
                        const v1::Knowledge& knowledge) {
  KnowledgeQuery query{project, hash, target, std::max(1, knowledge.threads())};
  if (knowledge.mode() == v1::Knowledge::SNAPSHOT) {
    query.until_us = knowledge.until_us();
  }
  return query;
}

/// The fastest of many trials is usually the luckiest one. A tree that was measured once must therefore be faster by
/// more than the spread of its times.
double leastGainUnconfirmed(const v1::TuningRecord& record, double min_gain) {
  return std::max(min_gain, 1 + kNoises * (record.host_noise() + record.mad_ms() / record.median_ms()));
}

}  // namespace

std::optional<double> shapeDistance(const WorkloadForm& one, const WorkloadForm& other) {
  if (one.shape.operators().empty() || other.shape.operators().empty()) {
    const v1::WorkloadShape shape = shapeOfSummary(one.summary), other_shape = shapeOfSummary(other.summary);
    return shape.operators().empty() ? std::nullopt : shapeDistance({shape, ""}, {other_shape, ""});
  }
  if (one.shape.operators() != other.shape.operators() ||
      one.shape.dimensions_size() != other.shape.dimensions_size()) {
    return std::nullopt;
  }
  double distance = 0;
  for (int i = 0; i < one.shape.dimensions_size(); ++i) {
    distance += std::abs(std::log((static_cast<double>(one.shape.dimensions(i)) + 1) /
                                  (static_cast<double>(other.shape.dimensions(i)) + 1)));
  }
  return distance;
}

absl::StatusOr<v1::KnownTrees> warmStartCandidates(storage::Reader& reader, const KnowledgeQuery& query,
                                                   const WorkloadForm& form) {
  v1::KnownTrees known;
  std::set<std::string> seen;
  const auto addUpTo = [&](size_t most, bool same_workload, const std::vector<v1::TuningRecord>& records) {
    for (const v1::TuningRecord& record : records) {
      most -= most > 0 && add(record, same_workload, true, seen, known) ? 1 : 0;
    }
  };
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::TuningRecord> records, timed(reader, query, "", "median_ms"));
  addUpTo(kOfWorkload, true, records);
  const std::string chip = compiler::targetHash(query.target), threads = absl::StrCat(" AND threads = ", query.threads);
  TESSERA_ASSIGN_OR_RETURN(
      std::vector<v1::TuningRecord> elsewhere,
      faster(reader, query.project,
             absl::StrCat("workload = ", quoted(query.workload_hash), threads, " AND NOT chip = ", quoted(chip)),
             kRead));
  std::erase_if(elsewhere, [](const v1::TuningRecord& record) { return record.target_hash().empty(); });
  addUpTo(kOfOtherChips, true, elsewhere);
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::TuningRecord> similar, similarTo(reader, query, form));
  std::ranges::sort(similar, {}, [&](const v1::TuningRecord& record) {
    return std::make_tuple(!record.target_hash().empty() && record.target_hash() != chip,
                           *shapeDistance(form, formOf(record)), record.median_ms() / record.baseline_ms(),
                           record.id());
  });
  addUpTo(kOfSimilar, false, similar);
  // The rest of the workload's records trains the cost model.
  for (const v1::TuningRecord& record : records) {
    add(record, true, false, seen, known);
  }
  return known;
}

absl::StatusOr<v1::TuningRecord> bestKnown(storage::Reader& reader, const KnowledgeQuery& query, double min_gain) {
  v1::TuningRecord best;
  const auto takeFaster = [&](const v1::TuningRecord& record) {
    if (best.id().empty() ||
        std::make_tuple(speedOf(record), record.id()) > std::make_tuple(speedOf(best), best.id())) {
      best = record;
    }
  };
  TESSERA_ASSIGN_OR_RETURN(
      const std::vector<v1::TuningRecord> confirmations,
      recordsWith(reader, query, absl::StrCat(" AND mode = ", kConfirmedMode), "create_time desc", kReadConfirmed));
  std::set<std::string> judged;
  for (const v1::TuningRecord& record : confirmations) {
    if (!hasTree(record)) {
      continue;
    }
    const bool newest =
        judged.insert(canonicalBytes(record.schedule())).second;  // the newest confirmation of a tree decides
    if (newest && record.outcome() == v1::TuningRecord::PASSED && speedOf(record) >= min_gain) {
      takeFaster(record);
    }
  }
  if (!best.id().empty()) {
    return best;
  }
  TESSERA_ASSIGN_OR_RETURN(
      const std::vector<v1::TuningRecord> trials,
      timed(reader, query, absl::StrCat(" AND outcome = PASSED AND speed > 0 AND mode != ", kConfirmedMode),
            "speed desc"));
  for (const v1::TuningRecord& record : trials) {
    if (speedOf(record) >= leastGainUnconfirmed(record, min_gain) &&
        !judged.contains(canonicalBytes(record.schedule()))) {
      takeFaster(record);
    }
  }
  return best;
}

absl::StatusOr<v1::TuningRecord> newestChoiceRecord(storage::Reader& reader, const KnowledgeQuery& query) {
  TESSERA_ASSIGN_OR_RETURN(
      const std::vector<v1::TuningRecord> answers,
      recordsWith(reader, query, absl::StrCat(" AND mode = ", kChoiceMode), "create_time desc", kRead));
  return answers.empty() ? v1::TuningRecord() : answers.front();
}

bool isFaster(const v1::TuningRecord& answer) {
  return answer.outcome() == v1::TuningRecord::PASSED && speedOf(answer) >= std::max(kMinGain, 1 + answer.host_noise());
}

bool usesRecords(const v1::CompileSpec& spec) {
  const v1::Knowledge::Mode mode = spec.options().knowledge().mode();
  return mode == v1::Knowledge::NEWEST || mode == v1::Knowledge::SNAPSHOT;
}

absl::StatusOr<std::vector<v1::Choice>> knownChoices(storage::Reader& reader, const std::string& project,
                                                     const v1::Knowledge& knowledge, const v1::Target& target,
                                                     const v1::PlanTaskResult& plan) {
  std::vector<v1::Choice> choices;
  for (const v1::AmbiguousChoice& open : plan.ambiguous_choices()) {
    TESSERA_ASSIGN_OR_RETURN(const v1::TuningRecord answer,
                             newestChoiceRecord(reader, queryFor(project, open.hash(), target, knowledge)));
    if (isFaster(answer)) {
      choices.insert(choices.end(), open.choices().begin(), open.choices().end());
    }
  }
  return choices;
}

absl::StatusOr<v1::Pins> knownTrees(storage::Reader& reader, const std::string& project, const v1::Knowledge& knowledge,
                                    const v1::Target& target, const v1::PlanTaskResult& plan) {
  v1::Pins pins;
  std::set<std::string> seen;
  for (const v1::PlanTaskResult::Unit& unit : plan.units()) {
    if (!seen.insert(unit.workload_hash()).second) {
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(const v1::TuningRecord best,
                             bestKnown(reader, queryFor(project, unit.workload_hash(), target, knowledge), kMinGain));
    if (!best.id().empty()) {
      compiler::pinWorkload(pins, unit.workload_hash(), unit.summary(), best.schedule());
    }
  }
  return pins;
}

}  // namespace tessera::server
