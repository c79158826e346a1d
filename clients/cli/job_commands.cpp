// tessera jobs | job | watch | cancel

#include <iostream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/label_flags.h"
#include "clients/cli/list_output.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"
#include "clients/cli/tuning.h"
#include "clients/cpp/compile.h"
#include "proto/messages/failure.h"

namespace tessera::client {
namespace {

using JobStub = v1::JobService::Stub;

double wallMs(const v1::Job& job) {
  if (job.end_time_us() == 0) return 0;
  return static_cast<double>(job.end_time_us() - job.create_time_us()) / 1000;
}

std::string describe(const v1::Job& job) {
  std::string text = absl::StrCat(job.id(), "  ", stateText(job.state()), "  ", jobSubject(job), "\n");
  absl::StrAppend(&text, "  created ", timeText(job.create_time_us()), ", started ", timeText(job.start_time_us()),
                  ", ended ", timeText(job.end_time_us()));
  if (job.end_time_us() != 0) absl::StrAppend(&text, " (", durationText(wallMs(job)), ")");
  absl::StrAppend(&text, "\n");
  if (!job.labels().empty()) {
    const std::map<std::string, std::string> labels(job.labels().begin(), job.labels().end());
    absl::StrAppend(&text, "  labels ", absl::StrJoin(labels, ", ", absl::PairFormatter("=")), "\n");
  }
  if (job.cached()) absl::StrAppend(&text, "  answered from the cache\n");
  if (!job.joined_job_id().empty()) absl::StrAppend(&text, "  shares the work of job ", job.joined_job_id(), "\n");
  if (!job.action_key().empty()) absl::StrAppend(&text, "  action key ", job.action_key(), "\n");
  for (const v1::PhaseTime& phase : job.phases()) {
    std::vector<std::string> facts;
    if (phase.cpu_ms() > 0) facts.push_back(absl::StrCat("cpu ", durationText(phase.cpu_ms())));
    if (phase.tasks() > 0) facts.push_back(absl::StrCat(phase.tasks(), phase.tasks() == 1 ? " task" : " tasks"));
    absl::StrAppend(&text, "  ", phase.phase(), ": ", durationText(phase.wall_ms()),
                    facts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(facts, ", "), ")"), "\n");
  }
  if (job.state() == v1::Job::RUNNING && !job.progress().phase().empty()) {
    absl::StrAppend(&text, "  now: ", job.progress().phase(), " ", job.progress().done(), "/", job.progress().total(),
                    " ", job.progress().detail(), "\n");
  }
  if (job.has_compile_result()) {
    absl::StrAppend(&text, "  artifact ", job.compile_result().artifact_id(), " (",
                    bytesText(job.compile_result().artifact().size_bytes()), ")\n");
  }
  if (job.has_tune_result()) {
    absl::StrAppend(&text, tuneText(job), "  artifact ", job.tune_result().artifact_id(), "\n");
  }
  if (job.has_analyze_result()) {
    const v1::Digest& report = job.analyze_result().report();
    const bool check = job.analyze().question() == v1::AnalyzeSpec::CHECK;
    absl::StrAppend(&text, "  ", check ? absl::StrCat(job.analyze_result().problems(), " problems, ") : "", "report ",
                    report.sha256(), " (", bytesText(report.size_bytes()), ")\n");
  }
  if (job.has_failure()) absl::StrAppend(&text, "  ", failureText(job.failure()));
  return text;
}

int printJob(const CommandLine& line, const v1::Job& job) {
  std::cout << (line.json ? toJson(job) + "\n" : describe(job));
  return 0;
}

void addJobs(CommandLine& line) {
  CLI::App* command = line.add("jobs", "List jobs");
  auto flags = std::make_shared<ListFlags>();
  auto labels = std::make_shared<LabelFlags>();
  flags->addTo(command, "id, state, kind, target, name, request_id, create_time, labels.KEY", "create_time desc");
  command->add_option("--label", labels->words, "KEY=VALUE: jobs with this label; may be repeated");
  command->callback([&line, flags, labels] {
    line.action = [&line, flags, labels] {
      auto narrowed = labels->narrowed(flags->filter);
      if (!narrowed.ok()) return reportError(narrowed.status(), line.json);
      flags->filter = *std::move(narrowed);
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      return printList<v1::ListJobsRequest>(
          line, *flags, "jobs", {"JOB", "STATE", "WHAT", "CREATED", "TOOK"},
          [&](const auto& request) { return (*channel)->call((*channel)->jobs(), &JobStub::ListJobs, request); },
          [](const auto& page) -> const auto& { return page.jobs(); },
          [](const v1::Job& job) {
            return std::vector<std::string>{job.id(), stateText(job.state()) + (job.cached() ? " (cached)" : ""),
                                            jobSubject(job), timeText(job.create_time_us()),
                                            job.end_time_us() ? durationText(wallMs(job)) : "-"};
          });
    };
  });
}

void addJob(CommandLine& line) {
  CLI::App* command = line.add("job", "Show one job");
  auto id = std::make_shared<std::string>();
  command->add_option("ID", *id, "the job")->required();
  command->callback([&line, id] {
    line.action = [&line, id] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      v1::GetJobRequest request;
      request.set_id(*id);
      auto answer = (*channel)->call((*channel)->jobs(), &JobStub::GetJob, request);
      if (!answer.ok()) return reportError(answer.status(), line.json);
      return printJob(line, answer->job());
    };
  });
}

void addWatch(CommandLine& line) {
  CLI::App* command = line.add("watch", "Follow a job to its end; same exit codes as `compile`");
  auto id = std::make_shared<std::string>();
  command->add_option("ID", *id, "the job")->required();
  command->callback([&line, id] {
    line.action = [&line, id] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      ProgressView view(line.quiet || line.json);
      // With --json each event is a line, and the job is the last line.
      auto job = awaitJob(**channel, *id,
                          [&](const v1::JobEvent& event) {
                            if (line.json) {
                              std::cout << toJson(event) << std::endl;
                            } else {
                              view.event(event);
                            }
                          },
                          {.on_waiting = [&](const std::string& reason) { view.waits(reason); }});
      view.finish();
      if (!job.ok()) return reportError(job.status(), line.json);
      printJob(line, *job);
      return job->has_failure() ? static_cast<int>(exitCodeOf(job->failure())) : 0;
    };
  });
}

void addCancel(CommandLine& line) {
  CLI::App* command = line.add("cancel", "Cancel jobs");
  auto ids = std::make_shared<std::vector<std::string>>();
  command->add_option("ID", *ids, "the jobs")->required();
  command->callback([&line, ids] {
    line.action = [&line, ids] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      for (const std::string& id : *ids) {
        v1::CancelJobRequest request;
        request.set_id(id);
        auto answer = (*channel)->call((*channel)->jobs(), &JobStub::CancelJob, request);
        if (!answer.ok()) return reportError(answer.status(), line.json);
        printJob(line, answer->job());
      }
      return 0;
    };
  });
}

}  // namespace

void addJobCommands(CommandLine& line) {
  addJobs(line);
  addJob(line);
  addWatch(line);
  addCancel(line);
}

}  // namespace tessera::client
