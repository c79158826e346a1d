// tessera records and its subcommands: show, best, stats, export, import

#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/list_output.h"
#include "clients/cli/output.h"
#include "clients/cli/record_stream.h"
#include "compiler/schedule/pins.h"
#include "compiler/schedule/text.h"
#include "proto/messages/failure.h"
#include "proto/support/printable.h"

namespace tessera::client {
namespace {

using RecordStub = v1::RecordService::Stub;

constexpr char kFields[] =
    "id, workload, summary, operators, target, chip, host, job, artifact, mode, method, outcome, validation, threads, "
    "trial, "
    "median_ms, speed, create_time";

double gflops(const v1::TuningRecord& record) {
  return record.median_ms() > 0 ? static_cast<double>(record.flops()) / record.median_ms() / 1e6 : 0;
}

/// The outcome as text, such as "passed"; for records without one, a description.
std::string outcomeText(const v1::TuningRecord& record) {
  if (record.outcome() == v1::TuningRecord::OUTCOME_UNSPECIFIED) return record.validation();
  return absl::AsciiStrToLower(v1::TuningRecord::Outcome_Name(record.outcome()));
}

std::string speedText(const v1::TuningRecord& record) {
  if (!(record.baseline_ms() > 0) || !(record.median_ms() > 0)) return "";
  return absl::StrFormat("%.2f", record.baseline_ms() / record.median_ms());
}

std::string timesText(const v1::TuningRecord& record) {
  return record.median_ms() > 0 ? millisecondsText(record.median_ms()) : "-";
}

const std::vector<std::string> kHeadings = {"WORKLOAD", "WHAT",    "TARGET",  "THREADS", "MEDIAN MS",
                                            "SPEED",    "GFLOP/S", "RUNS",    "OUTCOME", "MODE",
                                            "METHOD",   "HOST",    "MEASURED"};

std::vector<std::string> recordRow(const v1::TuningRecord& record) {
  return {record.workload_hash().substr(0, 12),
          record.workload_summary(),
          record.target_name(),
          absl::StrCat(record.threads()),
          timesText(record),
          speedText(record),
          absl::StrFormat("%.1f", gflops(record)),
          absl::StrCat(record.times_ms_size()),
          outcomeText(record),
          record.mode(),
          record.method(),
          record.hostname(),
          timeText(record.create_time_us())};
}

/// Formats all fields of a record, with its tree.
std::string describe(const v1::TuningRecord& record) {
  std::string text = absl::StrCat(record.id(), "  ", record.workload_summary(), "\n  workload ", record.workload_hash(),
                                  "\n  ", record.target_name(), ", ", record.threads(), " threads, ", record.hostname(),
                                  " (", record.cpu_model(), "), ", timeText(record.create_time_us()), "\n  ",
                                  outcomeText(record), record.reason().empty() ? "" : ": ", record.reason(), "\n");
  if (record.median_ms() > 0) {
    absl::StrAppendFormat(&text, "  %.5f ms (MAD %.5f, %d runs), %.1f GFLOP/s", record.median_ms(), record.mad_ms(),
                          record.times_ms_size(), gflops(record));
    if (record.baseline_ms() > 0)
      absl::StrAppendFormat(&text, ", the default %.5f ms: %s times as fast", record.baseline_ms(), speedText(record));
    absl::StrAppend(&text, "\n");
  }
  if (record.predicted_cycles() > 0)
    absl::StrAppendFormat(&text, "  predicted %.0f cycles\n", record.predicted_cycles());
  if (!record.method().empty() || record.trial() > 0)
    absl::StrAppend(&text, "  trial ", record.trial(), " of a search by ", record.method(), ", seed ", record.seed(),
                    "\n");
  if (record.load_average() > 0 || record.host_noise() > 0)
    absl::StrAppendFormat(&text, "  load %.2f, noise %.2f %%\n", record.load_average(), 100 * record.host_noise());
  if (!record.job_id().empty()) absl::StrAppend(&text, "  job ", record.job_id(), "\n");
  if (!record.artifact_id().empty()) absl::StrAppend(&text, "  artifact ", record.artifact_id(), "\n");
  return printable(text, true) + compiler::printSchedule(record.schedule());
}

/// Writes the fastest schedule of each workload for `compile --suggest`. Omits workloads whose fastest schedule is
/// slower than the default, which a compilation uses anyway. Times of different chips are not comparable.
int writeBest(const CommandLine& line, const std::vector<v1::TuningRecord>& best, const std::string& path) {
  std::set<std::string> kinds;
  std::map<std::string, const v1::TuningRecord*> fastest;  // by workload; chips of one name may differ
  for (const v1::TuningRecord& record : best) {
    if (record.schedule().ByteSizeLong() == 0) continue;  // the operator has no tree, or it belongs to another compiler
    kinds.insert(absl::StrCat("target ", record.target_name(), ", ", record.threads(), " threads"));
    const v1::TuningRecord*& known = fastest[record.workload_hash()];
    const bool lost = record.baseline_ms() > 0 && record.median_ms() >= record.baseline_ms();
    if (!lost && (known == nullptr || record.median_ms() < known->median_ms())) known = &record;
  }
  const size_t left_out = std::erase_if(fastest, [](const auto& entry) { return entry.second == nullptr; });
  if (kinds.size() > 1) {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INVALID_INPUT);
    failure.set_message("records of different chips or numbers of threads are not comparable");
    failure.set_attribute("records");
    failure.set_found(absl::StrJoin(kinds, "; "));
    failure.set_accepted("one target and one number of threads");
    failure.set_fix("tessera records best --target NAME --threads N -o FILE");
    return reportError(failureStatus(failure), line.json);
  }
  v1::Pins pins;
  for (const auto& [hash, record] : fastest)
    compiler::pinWorkload(pins, hash, record->workload_summary(), record->schedule());
  if (absl::Status written = writeText(path, compiler::printPins(pins)); !written.ok())
    return reportError(written, line.json);
  std::cout << (line.json
                    ? absl::StrCat("{\"output\":", jsonString(path), ",\"workloads\":", pins.workloads_size(),
                                   ",\"left_out\":", left_out, "}")
                    : absl::StrCat(path, ": the fastest schedules of ", pins.workloads_size(), " workloads",
                                   left_out == 0 ? ""
                                                 : absl::StrCat("; left out: ", left_out,
                                                                " whose fastest schedule was slower than the default")))
            << "\n";
  return 0;
}

/// The same for records selected by a filter, which the server's `best` query does not support.
int writeBestOf(const CommandLine& line, Channel& channel, const std::string& filter, const std::string& path) {
  std::map<std::tuple<std::string, std::string, std::string, int>, v1::TuningRecord> best;
  const absl::Status status = forEachRecord(channel, filter, [&](const v1::TuningRecord& record) {
    if (!hasValidTime(record)) return;
    v1::TuningRecord& known =
        best[{record.workload_hash(), record.target_name(), record.target_hash(), record.threads()}];
    if (known.workload_hash().empty() || record.median_ms() < known.median_ms()) known = record;
  });
  if (!status.ok()) return reportError(status, line.json);
  std::vector<v1::TuningRecord> records;
  for (auto& [group, record] : best) records.push_back(std::move(record));
  return writeBest(line, records, path);
}

struct BestFlags {
  v1::BestRecordsRequest request;
  std::vector<std::string> workloads;
  std::string target, chip, output;
  int threads = 0, top = 1, limit = 50;
};

int showBest(const CommandLine& line, const BestFlags& flags) {
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  v1::BestRecordsRequest request;
  for (const std::string& workload : flags.workloads) request.add_workload_hashes(workload);
  request.set_target_name(flags.target);
  request.set_target_hash(flags.chip);
  request.set_threads(flags.threads);
  request.set_top(flags.top);
  std::vector<v1::BestRecordsResponse::Group> groups;
  const bool all = flags.limit == 0 || !flags.output.empty();
  do {
    request.set_page_size(all ? 1000 : std::min(1000, flags.limit - static_cast<int>(groups.size())));
    auto page = (*channel)->call((*channel)->records(), &RecordStub::BestRecords, request);
    if (!page.ok()) return reportError(page.status(), line.json);
    groups.insert(groups.end(), page->groups().begin(), page->groups().end());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty() && (all || static_cast<int>(groups.size()) < flags.limit));
  if (!flags.output.empty()) {
    std::vector<v1::TuningRecord> fastest;
    for (const auto& group : groups) fastest.push_back(group.records(0));
    return writeBest(line, fastest, flags.output);
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> json;
  for (const auto& group : groups) {
    if (line.json) json.push_back(toJson(group));
    for (const v1::TuningRecord& record : group.records()) rows.push_back(recordRow(record));
  }
  if (line.json) {
    std::cout << "{\"groups\":[" << absl::StrJoin(json, ",")
              << "],\"next_page_token\":" << jsonString(request.page_token()) << "}\n";
    return 0;
  }
  std::cout << table(kHeadings, rows);
  if (!request.page_token().empty()) std::cerr << "there are more: --limit 0 shows all\n";
  return 0;
}

void addBest(CommandLine& line, CLI::App* records) {
  CLI::App* command = records->add_subcommand(
      "best", "The fastest records of each workload, chip and number of threads; failed trials do not count");
  command->fallthrough();
  auto flags = std::make_shared<BestFlags>();
  command->add_option("--workload", flags->workloads, "complete hash of a workload; may be repeated; default: all");
  command->add_option("--target", flags->target, "name of the chip");
  command->add_option("--chip", flags->chip, "hash of the chip's description");
  command->add_option("--threads", flags->threads, "of the runs")->check(CLI::Range(1, 1024));
  command->add_option("--top", flags->top, "number of records for each")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command->add_option("--limit", flags->limit, "largest number of combinations of workload, chip and threads; 0 = all")
      ->capture_default_str()
      ->check(nonNegative());
  command->add_option("-o,--output", flags->output,
                      "write the fastest schedules here, for `tessera compile --suggest`");
  command->callback([&line, flags] { line.action = [&line, flags] { return showBest(line, *flags); }; });
}

void addShow(CommandLine& line, CLI::App* records) {
  CLI::App* command = records->add_subcommand("show", "One record with its tree")->fallthrough();
  auto id = std::make_shared<std::string>();
  command->add_option("ID", *id, "id from `tessera records --json`")->required();
  command->callback([&line, id] {
    line.action = [&line, id] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      v1::GetRecordRequest request;
      request.set_id(*id);
      auto answer = (*channel)->call((*channel)->records(), &RecordStub::GetRecord, request);
      if (!answer.ok()) return reportError(answer.status(), line.json);
      std::cout << (line.json ? toJson(answer->record()) + "\n" : describe(answer->record()));
      return 0;
    };
  });
}

void addStatistics(CommandLine& line, CLI::App* records) {
  CLI::App* command = records->add_subcommand("stats", "Counts and extremes of records, grouped by a column");
  command->fallthrough();
  auto request = std::make_shared<v1::RecordStatisticsRequest>();
  auto filter = std::make_shared<std::string>(), by = std::make_shared<std::string>("workload");
  command->add_option("--filter", *filter, absl::StrCat("AIP-160 filter over ", kFields));
  command->add_option("--by", *by, "the column, e.g. workload, summary, target, host, mode, method, outcome")
      ->capture_default_str();
  command->callback([&line, request, filter, by] {
    line.action = [&line, request, filter, by] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      request->set_filter(*filter);
      request->set_group_by(*by);
      auto answer = (*channel)->call((*channel)->records(), &RecordStub::RecordStatistics, *request);
      if (!answer.ok()) return reportError(answer.status(), line.json);
      if (line.json) {
        std::cout << toJson(*answer) << "\n";
        return 0;
      }
      std::vector<std::vector<std::string>> rows;
      for (const auto& group : answer->groups())
        rows.push_back({group.value(), absl::StrCat(group.records()), absl::StrCat(group.failed()),
                        absl::StrCat(group.workloads()), group.best_ms() > 0 ? millisecondsText(group.best_ms()) : "-",
                        group.best_speed() > 0 ? absl::StrFormat("%.2f", group.best_speed()) : "-",
                        timeText(group.first_time_us()), timeText(group.last_time_us())});
      std::cout << table(
          {absl::AsciiStrToUpper(*by), "RECORDS", "FAILED", "WORKLOADS", "BEST MS", "BEST SPEED", "FIRST", "LAST"},
          rows);
      if (answer->more()) std::cerr << "the most frequent " << answer->groups_size() << "; there are more\n";
      return 0;
    };
  });
}

void addExport(CommandLine& line, CLI::App* records) {
  CLI::App* command = records->add_subcommand("export", "Export matching records as JSON, one per line, oldest first");
  command->fallthrough();
  auto filter = std::make_shared<std::string>(), path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "output file; default: standard output");
  command->add_option("--filter", *filter, absl::StrCat("AIP-160 filter over ", kFields));
  command->callback([&line, filter, path] {
    line.action = [&line, filter, path] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      if (path->empty()) return exportRecords(line, **channel, *filter, std::cout);
      std::ofstream out(*path);
      const int code = exportRecords(line, **channel, *filter, out);
      out.close();
      if (code == 0 && !out)
        return reportError(absl::UnknownError(absl::StrCat(*path, ": cannot be written")), line.json);
      return code;
    };
  });
}

void addImport(CommandLine& line, CLI::App* records) {
  CLI::App* command = records->add_subcommand(
      "import", "Import records of another database; known records are not stored again (as operator)");
  command->fallthrough();
  auto paths = std::make_shared<std::vector<std::string>>();
  auto check = std::make_shared<bool>(false);
  command
      ->add_option("FILE", *paths,
                   "files of `tessera records export`; -: standard input; a folder of TVM's MetaSchedule: its times, "
                   "without trees")
      ->required();
  command->add_flag("--validate-only", *check, "check them without storing");
  command->callback([&line, paths, check] {
    line.action = [&line, paths, check] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      auto answer = importRecords(**channel, *paths, *check);
      if (!answer.ok()) return reportError(answer.status(), line.json);
      if (line.json) {
        std::cout << toJson(*answer) << "\n";
      } else {
        for (const std::string& problem : answer->problems()) std::cerr << printable(problem) << "\n";
        std::cout << answer->imported() << " imported, " << answer->known() << " known already, " << answer->refused()
                  << " refused\n";
      }
      return static_cast<int>(answer->refused() == 0 ? kExitOk : kExitInvalid);
    };
  });
}

}  // namespace

void addRecordCommand(CommandLine& line) {
  CLI::App* command = line.add("records", "Query, export and import tuning records");
  auto flags = std::make_shared<ListFlags>();
  auto all = std::make_shared<bool>(false);
  auto best = std::make_shared<std::string>();
  flags->addTo(command, kFields, "create_time desc");
  command->add_flag("--export", *all, "the same as `tessera records export`");
  command->add_option(
      "--best-out", *best,
      "write the fastest schedule of each workload that the filter selects here, for compile --suggest");
  command->require_subcommand(0, 1);
  addShow(line, command);
  addBest(line, command);
  addStatistics(line, command);
  addExport(line, command);
  addImport(line, command);
  command->callback([&line, command, flags, all, best] {
    if (!command->get_subcommands().empty()) return;
    line.action = [&line, flags, all, best] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      if (!best->empty()) return writeBestOf(line, **channel, flags->filter, *best);
      if (*all) return exportRecords(line, **channel, flags->filter, std::cout);
      return printList<v1::ListRecordsRequest>(
          line, *flags, "records", kHeadings,
          [&](const auto& request) {
            return (*channel)->call((*channel)->records(), &RecordStub::ListRecords, request);
          },
          [](const auto& page) -> const auto& { return page.records(); }, recordRow);
    };
  });
}

}  // namespace tessera::client
