// tessera workers | tasks | ops

#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/list_output.h"
#include "clients/cli/local_service.h"
#include "clients/cli/npy.h"
#include "clients/cli/output.h"
#include "google/protobuf/util/time_util.h"
#include "proto/support/printable.h"
#include "workers/describe_host.h"

namespace tessera::client {
namespace {

using FleetStub = v1::FleetService::Stub;
using OperatorStub = v1::OperatorService::Stub;

/// "full", or the missing measures.
std::string sandboxOf(const v1::Worker& worker) {
  std::vector<std::string> missing;
  for (const v1::SandboxMeasure& measure : worker.sandbox()) {
    if (!measure.in_force()) missing.push_back(measure.name());
  }
  if (worker.sandbox().empty()) return "not told";
  return missing.empty() ? "full" : absl::StrCat("no ", absl::StrJoin(missing, ", "));
}

std::vector<std::string> workerRow(const v1::Worker& worker) {
  return {
      worker.id(),
      absl::AsciiStrToLower(v1::Worker::State_Name(worker.state())),
      worker.host().hostname(),
      worker.host().cpu(),
      absl::StrCat(worker.task_ids_size(), "/", worker.slots()),
      absl::StrCat(worker.tasks_done(), " done, ", worker.tasks_failed(), " failed, ", worker.faults(), " its fault"),
      sandboxOf(worker),
      timeText(worker.last_seen_us()),
      worker.trouble()};
}

std::string kindText(int kind) { return absl::AsciiStrToLower(v1::TaskKind_Name(static_cast<v1::TaskKind>(kind))); }

/// Text from workers is printed on one line each, whatever it contains.
std::string describe(const v1::Worker& worker) {
  std::string text;
  const auto add = [&](const auto&... words) { absl::StrAppend(&text, printable(absl::StrCat(words...)), "\n"); };
  add(worker.id(), "  ", absl::AsciiStrToLower(v1::Worker::State_Name(worker.state())));
  add("  on ", worker.host().hostname(), " (", worker.host().cpu_model(), ", target ", worker.host().cpu(),
      "), process ", worker.pid(), ", compiler ", worker.compiler_version());
  add("  last seen ", timeText(worker.last_seen_us()), ", ", worker.tasks_done(), " done, ", worker.tasks_failed(),
      " failed, ", worker.faults(), " its fault");
  std::vector<std::string> kinds;
  for (const int kind : worker.kinds()) kinds.push_back(kindText(kind));
  add("  takes ", kinds.empty() ? "everything" : absl::StrJoin(kinds, ", "), ", ", worker.slots(), " at a time, ",
      worker.measuring_cores(), " cores to measure on");
  for (const std::string& task : worker.task_ids()) add("  runs ", task);
  if (!worker.trouble().empty()) add("  trouble: ", worker.trouble());
  if (worker.sandbox().empty()) add("  sandbox: not told");
  for (const v1::SandboxMeasure& measure : worker.sandbox()) {
    add("  sandbox: ", measure.in_force() ? "" : "no ", measure.name(), ": ", measure.detail());
  }
  return text;
}

int showWorker(const CommandLine& line, Channel& channel, const std::string& id) {
  v1::GetWorkerRequest request;
  request.set_id(id);
  auto answer = channel.call(channel.fleet(), &FleetStub::GetWorker, request);
  if (!answer.ok()) return reportError(answer.status(), line.json);
  std::cout << (line.json ? toJson(answer->worker()) + "\n" : describe(answer->worker()));
  return 0;
}

std::vector<std::string> taskRow(const v1::TaskInfo& task) {
  std::string jobs = task.job_ids().empty() ? "-" : task.job_ids(0);
  jobs += andMore(task.jobs() - 1);
  return {task.id(),
          kindText(task.kind()),
          absl::AsciiStrToLower(v1::TaskInfo::State_Name(task.state())),
          absl::StrCat(task.priority()),
          absl::StrCat(task.attempts()),
          task.worker_id().empty() ? "-" : task.worker_id(),
          timeText(google::protobuf::util::TimeUtil::TimestampToMicroseconds(task.ready_time())),
          jobs,
          task.has_failure() ? task.failure().message() : ""};
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

std::vector<std::string> wantedRow(const v1::WantedWorkers& wanted) {
  return {kindText(wanted.kind()),        wanted.target().empty() ? "(any)" : wanted.target(),
          absl::StrCat(wanted.waiting()), absl::StrCat(wanted.running()),
          absl::StrCat(wanted.slots()),   absl::StrCat(wanted.workers())};
}

/// Prints the number of workers that the live tasks need.
int showWanted(const CommandLine& line, Channel& channel) {
  auto answer = channel.call(channel.fleet(), &FleetStub::ListWantedWorkers, v1::ListWantedWorkersRequest());
  if (!answer.ok()) return reportError(answer.status(), line.json);
  if (line.json) {
    std::cout << toJson(*answer) << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::WantedWorkers& wanted : answer->wanted()) rows.push_back(wantedRow(wanted));
  std::cout << table({"KIND", "TARGET", "WAITING", "RUNNING", "SLOTS", "WORKERS"}, rows);
  return 0;
}

}  // namespace

void addOperatorCommand(CommandLine& line) {
  CLI::App* command = line.add("ops", "List the supported operators with their versions");
  auto flags = std::make_shared<ListFlags>();
  flags->limit = 0;  // a table for look-ups: show everything
  flags->addTo(command, "name, domain, family, since_version, until_version", "domain, name, since_version");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      auto channel = line.connectIfThere();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      const std::vector<std::string> headings = {"OPERATOR", "VERSIONS", "INPUTS", "FAMILY", "TYPES"};
      if (*channel == nullptr) {
        // The operator table belongs to the compiler, which this program does not link; tessera-task prints it.
        const auto described = worker::describeHost(siblingBinary("tessera-task"));
        if (!described.ok()) return reportError(described.status(), line.json);
        return printBuiltin(line, *flags, "operators", headings, described->operators(), operatorRow);
      }
      return printList<v1::ListOperatorsRequest>(
          line, *flags, "operators", headings,
          [&](const auto& request) {
            return (*channel)->call((*channel)->operators(), &OperatorStub::ListOperators, request);
          },
          [](const auto& page) -> const auto& { return page.operators(); }, operatorRow);
    };
  });
}

void addTaskCommand(CommandLine& line) {
  CLI::App* command = line.add("tasks", "List tasks: the steps of jobs in the queue");
  auto flags = std::make_shared<ListFlags>();
  flags->addTo(command, "id, state, kind, priority, worker, create_time, project", "create_time desc");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      return printList<v1::ListTasksRequest>(
          line, *flags, "tasks",
          {"TASK", "KIND", "STATE", "PRIORITY", "ATTEMPTS", "WORKER", "READY", "JOBS", "FAILURE"},
          [&](const auto& request) { return (*channel)->call((*channel)->fleet(), &FleetStub::ListTasks, request); },
          [](const auto& page) -> const auto& { return page.tasks(); }, taskRow);
    };
  });
}

void addWorkerCommand(CommandLine& line) {
  CLI::App* command = line.add("workers", "List workers, show one, drain one, or count those that are wanted");
  auto flags = std::make_shared<ListFlags>();
  auto name = std::make_shared<std::string>();
  auto* one = command->add_option("NAME", *name, "show this worker in full");
  auto drain = std::make_shared<std::string>(), undrain = std::make_shared<std::string>();
  flags->addTo(command, "id, state, host, compiler_version, last_seen_time", "id");
  auto* drain_option =
      command->add_option("--drain", *drain, "let this worker finish its tasks and give it no new ones")->excludes(one);
  auto* undrain_option =
      command->add_option("--undrain", *undrain, "give this worker tasks again")->excludes(drain_option)->excludes(one);
  auto wanted = std::make_shared<bool>();
  command
      ->add_flag("--wanted", *wanted,
                 "print instead how many workers would run all waiting and running tasks at once, by kind of task and "
                 "target")
      ->excludes(one)
      ->excludes(drain_option)
      ->excludes(undrain_option);
  command->callback([&line, flags, name, drain, undrain, wanted] {
    line.action = [&line, flags, name, drain, undrain, wanted] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      if (*wanted) return showWanted(line, **channel);
      if (!name->empty()) return showWorker(line, **channel, *name);
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
          line, *flags, "workers",
          {"WORKER", "STATE", "HOST", "CPU", "BUSY", "TASKS", "SANDBOX", "LAST SEEN", "TROUBLE"},
          [&](const auto& request) { return (*channel)->call((*channel)->fleet(), &FleetStub::ListWorkers, request); },
          [](const auto& page) -> const auto& { return page.workers(); }, workerRow);
    };
  });
}

}  // namespace tessera::client
