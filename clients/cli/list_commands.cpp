// tessera records | workers | ops

#include <functional>
#include <iostream>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/list_output.h"
#include "clients/cli/npy.h"
#include "clients/cli/output.h"
#include "compiler/schedule/pins.h"
#include "proto/failure.h"

namespace tessera::client {
namespace {

using RecordStub = v1::RecordService::Stub;
using FleetStub = v1::FleetService::Stub;
using OperatorStub = v1::OperatorService::Stub;

std::vector<std::string> recordRow(const v1::TuningRecord& record) {
  const double gflops = record.median_ms() > 0 ? static_cast<double>(record.flops()) / record.median_ms() / 1e6 : 0;
  return {record.workload_hash().substr(0, 12),
          record.workload_summary(),
          record.target_name(),
          absl::StrFormat("%.4f", record.median_ms()),
          absl::StrFormat("%.1f", gflops),
          absl::StrCat(record.times_ms_size()),
          record.mode(),
          record.hostname(),
          timeText(record.create_time_us())};
}

absl::Status forEachRecord(Channel& channel, const std::string& filter,
                           const std::function<void(const v1::TuningRecord&)>& use) {
  grpc::ClientContext context;
  v1::ExportRecordsRequest request;
  request.set_filter(filter);
  auto reader = channel.records().ExportRecords(&context, request);
  v1::ExportRecordsResponse response;
  while (reader->Read(&response)) use(response.record());
  const grpc::Status status = reader->Finish();
  return status.ok() ? absl::OkStatus() : fromGrpc(status);
}

// Every matching record as one JSON object a line.
int exportRecords(const CommandLine& line, Channel& channel, const std::string& filter) {
  const absl::Status status =
      forEachRecord(channel, filter, [](const v1::TuningRecord& record) { std::cout << toJson(record) << "\n"; });
  return status.ok() ? 0 : reportError(status, line.json);
}

// The fastest schedule of each workload, for `compile --suggest`. Times of different chips do not compare.
int writeBest(const CommandLine& line, Channel& channel, const std::string& filter, const std::string& path) {
  std::map<std::string, v1::TuningRecord> best;
  std::set<std::string> kinds;
  int records = 0;
  const absl::Status status = forEachRecord(channel, filter, [&](const v1::TuningRecord& record) {
    ++records;
    kinds.insert(absl::StrCat("target ", record.target_name(), ", ", record.threads(), " threads"));
    v1::TuningRecord& known = best[record.workload_hash()];
    if (known.workload_hash().empty() || record.median_ms() < known.median_ms()) known = record;
  });
  if (!status.ok()) return reportError(status, line.json);
  if (kinds.size() > 1) {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INVALID_INPUT);
    failure.set_message("records of different chips or numbers of threads do not compare");
    failure.set_attribute("--filter");
    failure.set_found(absl::StrJoin(kinds, "; "));
    failure.set_accepted("one target and one number of threads");
    failure.set_fix("--filter 'target = \"NAME\" AND threads = 1'");
    return reportError(failureStatus(failure), line.json);
  }
  v1::Pins pins;
  for (const auto& [hash, record] : best)
    compiler::pinWorkload(pins, hash, record.workload_summary(), record.schedule());
  if (absl::Status written = writeText(path, compiler::printPins(pins)); !written.ok())
    return reportError(written, line.json);
  std::cout << (line.json ? absl::StrCat("{\"output\":", jsonString(path), ",\"workloads\":", pins.workloads_size(),
                                         ",\"records\":", records, "}")
                          : absl::StrCat(path, ": the fastest schedules of ", pins.workloads_size(), " workloads, of ",
                                         records, " records"))
            << "\n";
  return 0;
}

std::vector<std::string> workerRow(const v1::Worker& worker) {
  return {
      worker.id(),
      absl::AsciiStrToLower(v1::Worker::State_Name(worker.state())),
      worker.host().hostname(),
      worker.host().cpu(),
      absl::StrCat(worker.task_ids_size(), "/", worker.slots()),
      absl::StrCat(worker.tasks_done(), " done, ", worker.tasks_failed(), " failed, ", worker.faults(), " its fault"),
      timeText(worker.last_seen_us()),
      worker.trouble()};
}

std::vector<std::string> operatorRow(const v1::OperatorInfo& info) {
  std::vector<std::string> types;
  for (int type : info.types()) types.emplace_back(dtypeName(static_cast<v1::DataType>(type)));
  const bool fixed = info.max_inputs() == info.min_inputs();
  return {info.domain().empty() ? info.name() : absl::StrCat(info.domain(), ".", info.name()),
          absl::StrCat(info.since_version(), " to ", info.until_version()),
          info.max_inputs() < 0 ? absl::StrCat(info.min_inputs(), " or more")
          : fixed               ? absl::StrCat(info.min_inputs())
                                : absl::StrCat(info.min_inputs(), " to ", info.max_inputs()),
          info.family(), absl::StrJoin(types, " ")};
}

}  // namespace

void addOperatorCommand(CommandLine& line) {
  CLI::App* command = line.add("ops", "List the operators that are compiled, with their versions");
  auto flags = std::make_shared<ListFlags>();
  flags->limit = 0;  // a table that people look something up in
  flags->addTo(command, "name, domain, family, since_version, until_version", "domain, name, since_version");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      return printList<v1::ListOperatorsRequest>(
          line, *flags, "operators", {"OPERATOR", "VERSIONS", "INPUTS", "FAMILY", "TYPES"},
          [&](const auto& request) {
            return (*channel)->call((*channel)->operators(), &OperatorStub::ListOperators, request);
          },
          [](const auto& page) -> const auto& { return page.operators(); }, operatorRow);
    };
  });
}

void addRecordCommand(CommandLine& line) {
  CLI::App* command = line.add("records", "Query the tuning database");
  auto flags = std::make_shared<ListFlags>();
  auto all = std::make_shared<bool>(false);
  flags->addTo(command, "workload, summary, target, threads, host, job, mode, median_ms, create_time",
               "create_time desc");
  command->add_flag("--export", *all, "every matching record as JSON, one a line, oldest first");
  auto best = std::make_shared<std::string>();
  command->add_option("--best-out", *best, "write the fastest schedule of each workload here, for compile --suggest");
  command->callback([&line, flags, all, best] {
    line.action = [&line, flags, all, best] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      if (!best->empty()) return writeBest(line, **channel, flags->filter, *best);
      if (*all) return exportRecords(line, **channel, flags->filter);
      return printList<v1::ListRecordsRequest>(
          line, *flags, "records",
          {"WORKLOAD", "WHAT", "TARGET", "MEDIAN MS", "GFLOP/S", "RUNS", "MODE", "HOST", "MEASURED"},
          [&](const auto& request) {
            return (*channel)->call((*channel)->records(), &RecordStub::ListRecords, request);
          },
          [](const auto& page) -> const auto& { return page.records(); }, recordRow);
    };
  });
}

void addWorkerCommand(CommandLine& line) {
  CLI::App* command = line.add("workers", "List workers, or drain one");
  auto flags = std::make_shared<ListFlags>();
  auto drain = std::make_shared<std::string>(), undrain = std::make_shared<std::string>();
  flags->addTo(command, "id, state, host, compiler_version, last_seen_time", "id");
  auto* drain_option = command->add_option("--drain", *drain, "let this worker finish and give it nothing more");
  command->add_option("--undrain", *undrain, "give this worker work again")->excludes(drain_option);
  command->callback([&line, flags, drain, undrain] {
    line.action = [&line, flags, drain, undrain] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      if (!drain->empty() || !undrain->empty()) {
        v1::DrainWorkerRequest request;
        request.set_worker_id(drain->empty() ? *undrain : *drain);
        request.set_drain(!drain->empty());
        auto answer = (*channel)->call((*channel)->fleet(), &FleetStub::DrainWorker, request);
        if (!answer.ok()) return reportError(answer.status(), line.json);
        std::cout << (line.json ? toJson(answer->worker()) : absl::StrJoin(workerRow(answer->worker()), "  ")) << "\n";
        return 0;
      }
      return printList<v1::ListWorkersRequest>(
          line, *flags, "workers", {"WORKER", "STATE", "HOST", "CPU", "BUSY", "TASKS", "LAST SEEN", "TROUBLE"},
          [&](const auto& request) { return (*channel)->call((*channel)->fleet(), &FleetStub::ListWorkers, request); },
          [](const auto& page) -> const auto& { return page.workers(); }, workerRow);
    };
  });
}

}  // namespace tessera::client
