#include "clients/cli/tuning.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "clients/cli/comparison.h"
#include "clients/cli/latency.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cpp/digest.h"
#include "clients/cpp/transfer.h"
#include "compiler/schedule/pins.h"
#include "compiler/schedule/text.h"
#include "compiler/search/search.h"
#include "proto/failure.h"

namespace tessera::client {
namespace {

using Clock = std::chrono::steady_clock;
using compiler::search::Candidate;
using compiler::search::Search;

constexpr auto kRunPatience = std::chrono::minutes(30);
constexpr double kTolerance = 1e-4;      // of an output's largest magnitude, against the default's answer
constexpr double kHalfTolerance = 2e-2;  // the same where an output is f16 or bf16
constexpr double kLeastShare = 0.005;    // of the model's time: below, a workload is left as it is
constexpr double kLeastGain = 1.01;      // at the end: below, a tree is left out
constexpr int kWarmup = 2, kRepeat = 7, kFinalRepeat = 15, kFinalRounds = 5;
constexpr int kMostRecords = 4;      // of each workload that are tried first
constexpr size_t kMostFailures = 5;  // that are kept of each workload

double medianOf(std::vector<double> values) { return summarize(std::move(values)).median; }

bool isHalf(v1::DataType type) { return type == v1::DATA_TYPE_F16 || type == v1::DATA_TYPE_BF16; }
bool isFloat(v1::DataType type) { return isHalf(type) || type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F64; }

/// Floats as seeded tensors have them; all others 0 or 1, which are positions, lengths and truth values wherever a
/// model reads such.
std::string sampleOf(const v1::TensorSpec& spec, uint64_t seed) {
  std::string bytes = seededTensor(spec, seed).bytes;
  if (isFloat(spec.dtype())) return bytes;
  const auto width = static_cast<size_t>(dtypeBytes(spec.dtype()));
  for (size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<char>(at % width == 0 ? bytes[at] & 1 : 0);
  return bytes;
}

/// Times of one profile, a workload's steps added up.
struct Profile {
  struct Workload {
    double ms = 0;
    int steps = 0;
    std::string summary, tree;
    v1::Schedule schedule;
  };
  std::map<std::string, Workload> workloads;
  std::vector<double> latencies_ms;
  std::string host;
};

class Tuner {
 public:
  Tuner(Channel& channel, CompileRequest request, const TuningOptions& options, const TuningProgress& progress)
      : channel_(channel), request_(std::move(request)), options_(options), progress_(progress) {}

  absl::StatusOr<TuningOutcome> run();

 private:
  struct Work {
    TunedWorkload told;
    std::unique_ptr<Search> search;
  };
  /// A tree for each of some workloads.
  using Trees = std::map<std::string, const v1::Schedule*>;
  struct Proposal {
    Work* work;
    Candidate candidate;
  };

  absl::Status begin();
  absl::Status suggestRecords(Work& work);
  absl::StatusOr<std::string> compile(const Trees& trees);
  absl::StatusOr<v1::ExecuteResult> execute(const std::string& artifact);
  absl::Status compareWithDefault(const std::string& artifact);
  absl::StatusOr<Profile> profile(const std::string& artifact, int repeat);
  absl::Status tryAll(std::vector<Proposal> proposals);
  absl::Status measure(const std::vector<Proposal>& proposals, const std::string& artifact);
  absl::Status confirm(TuningOutcome& outcome);
  Trees bestTrees(bool improved_only);
  bool timeIsUp() const { return Clock::now() >= end_ || (options_.stop && options_.stop()); }

  Channel& channel_;
  CompileRequest request_;
  const TuningOptions& options_;
  const TuningProgress& progress_;
  Clock::time_point end_;
  std::string default_artifact_;
  v1::Manifest manifest_;
  std::vector<v1::TensorValue> inputs_;
  std::map<std::string, Tensor> wanted_;  ///< by output
  std::vector<Work> works_;
  double default_sum_ms_ = 0;
  int rounds_ = 0, done_ = 0;
};

absl::StatusOr<std::string> Tuner::compile(const Trees& trees) {
  auto uploaded = uploadCompile(channel_, request_, {});
  if (!uploaded.ok()) return uploaded.status();
  v1::CreateJobRequest& create = uploaded->create;
  if (!trees.empty()) {
    v1::Pins pins;
    for (const auto& [hash, schedule] : trees) compiler::pinWorkload(pins, hash, "", *schedule);
    const std::string text = compiler::printPins(pins);
    v1::CompileSpec& spec = *create.mutable_compile();
    *spec.mutable_pins() = digestOf(text);
    spec.set_pin_use(v1::SUGGESTIONS);
    if (absl::Status status = uploadBytes(channel_, text, spec.pins()); !status.ok()) return status;
  }
  auto outcome = createCompile(channel_, *uploaded);
  if (!outcome.ok()) return outcome.status();
  auto job = awaitJob(channel_, outcome->job.id(), {});
  if (!job.ok()) return job.status();
  if (job->state() != v1::Job::SUCCEEDED) return failureStatus(job->failure());
  return job->compile_result().artifact_id();
}

absl::StatusOr<v1::ExecuteResult> Tuner::execute(const std::string& artifact) {
  v1::ExecuteRequest request;
  request.mutable_spec()->set_artifact_id(artifact);
  request.mutable_spec()->set_threads(options_.threads);
  request.mutable_spec()->mutable_inputs()->Assign(inputs_.begin(), inputs_.end());
  auto answer = channel_.call(channel_.execution(), &v1::ExecutionService::Stub::Execute, request,
                              {.timeout = kRunPatience, .attempts = 1});
  if (!answer.ok()) return answer.status();
  for (v1::TensorValue& output : *answer->mutable_result()->mutable_outputs()) {
    auto bytes = bytesOf(channel_, output);
    if (!bytes.ok()) return bytes.status();
    output.set_data(*std::move(bytes));
  }
  return std::move(*answer->mutable_result());
}

absl::StatusOr<Profile> Tuner::profile(const std::string& artifact, int repeat) {
  v1::ProfileRequest request;
  v1::ProfileSpec& spec = *request.mutable_spec();
  spec.set_artifact_id(artifact);
  spec.set_threads(options_.threads);
  spec.set_warmup(kWarmup);
  spec.set_repeat(repeat);
  spec.set_seed(options_.seed);
  spec.mutable_inputs()->Assign(inputs_.begin(), inputs_.end());
  auto answer = channel_.call(channel_.execution(), &v1::ExecutionService::Stub::Profile, request,
                              {.timeout = kRunPatience, .attempts = 1});
  if (!answer.ok()) return answer.status();
  Profile result;
  const v1::ProfileResult& times = answer->result();
  result.latencies_ms.assign(times.latency_ms().begin(), times.latency_ms().end());
  result.host = absl::StrCat(times.host().hostname(), " (", times.host().cpu_model(), ")");
  for (const v1::ProfileResult::KernelTime& kernel : times.kernels()) {
    Profile::Workload& workload = result.workloads[kernel.workload_hash()];
    workload.ms += kernel.median_ms();
    ++workload.steps;
    workload.summary = kernel.summary();
    workload.schedule = kernel.schedule();
    workload.tree = compiler::printSchedule(kernel.schedule());
  }
  return result;
}

absl::Status Tuner::suggestRecords(Work& work) {
  v1::ListRecordsRequest request;
  request.set_page_size(kMostRecords);
  request.set_filter(absl::StrCat("workload = \"", work.told.hash, "\" AND target = \"", manifest_.target_name(),
                                  "\" AND threads = ", options_.threads));
  request.set_order_by("median_ms");
  auto answer = channel_.call(channel_.records(), &v1::RecordService::Stub::ListRecords, request);
  if (!answer.ok()) return answer.status();
  for (const v1::TuningRecord& record : answer->records()) work.search->suggest(record.schedule());
  return absl::OkStatus();
}

absl::Status Tuner::begin() {
  end_ = Clock::now() + options_.budget;
  auto compiled = compile({});
  if (!compiled.ok()) return compiled.status();
  default_artifact_ = *compiled;
  v1::GetArtifactRequest get;
  get.set_id(default_artifact_);
  auto artifact = channel_.call(channel_.artifacts(), &v1::ArtifactService::Stub::GetArtifact, get);
  if (!artifact.ok()) return artifact.status();
  manifest_ = artifact->artifact().manifest();
  if (manifest_.variants_size() > 0)
    return failureStatus(v1::Failure::INVALID_INPUT, "tune: the request has several variants; tune one at a time");
  uint64_t number = 0;
  for (const v1::TensorSpec& spec : manifest_.inputs()) {
    v1::TensorValue& value = inputs_.emplace_back();
    const auto fixed = std::ranges::find_if(
        manifest_.fixed_inputs(), [&](const v1::TensorValue& each) { return each.spec().name() == spec.name(); });
    if (fixed != manifest_.fixed_inputs().end()) {
      value = *fixed;
      continue;
    }
    *value.mutable_spec() = spec;
    absl::Status status = attachBytes(channel_, sampleOf(spec, options_.seed + ++number), value);
    if (!status.ok()) return status;
  }
  auto wanted = execute(default_artifact_);
  if (!wanted.ok()) return wanted.status();
  for (const v1::TensorValue& output : wanted->outputs())
    wanted_[output.spec().name()] = {output.spec(), output.data()};
  auto times = profile(default_artifact_, kFinalRepeat);
  if (!times.ok()) return times.status();
  for (const auto& [hash, workload] : times->workloads) default_sum_ms_ += workload.ms;
  uint64_t seed = options_.seed;
  for (const auto& [hash, workload] : times->workloads) {
    Work& work = works_.emplace_back();
    work.told.hash = hash;
    work.told.summary = workload.summary;
    work.told.steps = workload.steps;
    work.told.default_ms = work.told.best_ms = workload.ms;
    work.told.schedule = workload.schedule;
    auto search = compiler::search::makeSearch(options_.method, workload.schedule, ++seed);
    if (!search.ok()) return search.status();
    work.search = *std::move(search);
    if (workload.ms < kLeastShare * default_sum_ms_) {
      work.told.untuned = "it takes less than 0.5 % of the model's time";
    } else if (options_.records) {
      if (absl::Status status = suggestRecords(work); !status.ok()) return status;
    }
  }
  std::ranges::sort(works_, std::greater<>(),
                    [](const Work& work) { return std::pair(work.told.default_ms, work.told.hash); });
  return absl::OkStatus();
}

absl::Status Tuner::compareWithDefault(const std::string& artifact) {
  auto found = execute(artifact);
  if (!found.ok()) return found.status();
  for (const v1::TensorValue& output : found->outputs()) {
    const std::string& name = output.spec().name();
    const double tolerance = isHalf(output.spec().dtype()) ? kHalfTolerance : kTolerance;
    const Difference difference = compare(name, {output.spec(), output.data()}, wanted_[name], tolerance);
    // Where the default says zero everywhere, so must the candidate.
    if (!difference.passed() || difference.absolute > tolerance * difference.largest)
      return failureStatus(v1::Failure::INTERNAL,
                           absl::StrCat("output '", name, "' differs from the default's: ",
                                        difference.passed() ? absl::StrCat("off by ", difference.absolute, " from zero")
                                                            : difference.why));
  }
  return absl::OkStatus();
}

Tuner::Trees Tuner::bestTrees(bool improved_only) {
  Trees trees;
  for (Work& work : works_) {
    if (improved_only ? work.told.improved : work.search->speed() > 1) trees[work.told.hash] = &work.search->best();
  }
  return trees;
}

/// The candidates' times against the default's, both profiled in turns; what was not followed is told from the trees
/// that the artifact has.
absl::Status Tuner::measure(const std::vector<Proposal>& proposals, const std::string& artifact) {
  auto before = profile(default_artifact_, kRepeat);
  if (!before.ok()) return before.status();
  auto times = profile(artifact, kRepeat);
  if (!times.ok()) return times.status();
  auto after = profile(default_artifact_, kRepeat);
  if (!after.ok()) return after.status();
  for (const Proposal& proposal : proposals) {
    TunedWorkload& told = proposal.work->told;
    const Profile::Workload& measured = times->workloads[told.hash];
    if (measured.tree != compiler::printSchedule(proposal.candidate.schedule)) {
      ++told.refused;
      proposal.work->search->observe(proposal.candidate, {});
      continue;
    }
    ++told.trials;
    ++done_;
    const double reference = std::min(before->workloads[told.hash].ms, after->workloads[told.hash].ms);
    proposal.work->search->observe(proposal.candidate, {measured.ms > 0 ? reference / measured.ms : 1});
  }
  return absl::OkStatus();
}

/// Errors are those of the service; what lies in a candidate is told to its search.
absl::Status Tuner::tryAll(std::vector<Proposal> proposals) {
  Trees trees = bestTrees(false);
  for (const Proposal& proposal : proposals) trees[proposal.work->told.hash] = &proposal.candidate.schedule;
  auto artifact = compile(trees);
  ++rounds_;
  absl::Status status = artifact.ok() ? compareWithDefault(*artifact) : artifact.status();
  if (status.ok()) return measure(proposals, *artifact);
  if (absl::IsUnavailable(status) || absl::IsCancelled(status) || timeIsUp()) return status;
  if (proposals.size() > 1) {
    const auto middle = proposals.begin() + static_cast<std::ptrdiff_t>(proposals.size() / 2);
    const absl::Status first = tryAll({proposals.begin(), middle});
    return first.ok() ? tryAll({middle, proposals.end()}) : first;
  }
  TunedWorkload& told = proposals[0].work->told;
  ++told.failed;
  if (told.failures.size() < kMostFailures) told.failures.push_back(std::string(failureOf(status).message()));
  proposals[0].work->search->observe(proposals[0].candidate, {});
  return absl::OkStatus();
}

/// Several rounds in turns: what was lucky once is left out.
absl::Status Tuner::confirm(TuningOutcome& outcome) {
  const Trees all = bestTrees(false);
  for (Work& work : works_) work.told.improved = all.contains(work.told.hash);
  for (const bool last : {false, true}) {
    auto artifact = compile(bestTrees(true));
    if (!artifact.ok()) return artifact.status();
    if (last) outcome.artifact_id = *artifact;
    if (absl::Status status = compareWithDefault(*artifact); !status.ok()) return status;
    std::map<std::string, std::vector<double>> default_ms, best_ms, gains;
    std::vector<double> default_latencies, best_latencies;
    for (int round = 0; round < kFinalRounds; ++round) {
      auto before = profile(default_artifact_, kFinalRepeat);
      if (!before.ok()) return before.status();
      auto times = profile(*artifact, kFinalRepeat);
      if (!times.ok()) return times.status();
      outcome.host = times->host;
      default_latencies.insert(default_latencies.end(), before->latencies_ms.begin(), before->latencies_ms.end());
      best_latencies.insert(best_latencies.end(), times->latencies_ms.begin(), times->latencies_ms.end());
      for (const Work& work : works_) {
        const std::string& hash = work.told.hash;
        default_ms[hash].push_back(before->workloads[hash].ms);
        best_ms[hash].push_back(times->workloads[hash].ms);
        gains[hash].push_back(before->workloads[hash].ms / std::max(1e-9, times->workloads[hash].ms));
      }
    }
    for (Work& work : works_) {
      TunedWorkload& told = work.told;
      told.default_ms = medianOf(default_ms[told.hash]);
      told.best_ms = medianOf(best_ms[told.hash]);
      if (!last && told.improved) told.improved = medianOf(gains[told.hash]) >= kLeastGain;
    }
    outcome.default_ms = medianOf(default_latencies);
    outcome.best_ms = medianOf(best_latencies);
    for (double& latency : default_latencies) latency = std::fabs(latency - outcome.default_ms);
    outcome.noise = medianOf(default_latencies) / std::max(1e-9, outcome.default_ms);
  }
  return absl::OkStatus();
}

absl::StatusOr<TuningOutcome> Tuner::run() {
  if (absl::Status status = begin(); !status.ok()) return status;
  int total = 0;
  for (const Work& work : works_) total += work.told.untuned.empty() ? options_.trials : 0;
  while (!timeIsUp()) {
    std::vector<Proposal> proposals;
    double best_ms = 0;
    for (Work& work : works_) {
      best_ms += work.told.default_ms / work.search->speed();
      if (!work.told.untuned.empty() || work.told.trials >= options_.trials) continue;
      if (auto candidate = work.search->propose()) proposals.push_back({&work, *std::move(candidate)});
    }
    progress_(done_, total, absl::StrCat("the model would be ", default_sum_ms_ / best_ms, " times as fast"));
    if (proposals.empty()) break;
    if (absl::Status status = tryAll(std::move(proposals)); !status.ok() && !timeIsUp()) return status;
  }
  TuningOutcome outcome;
  if (absl::Status status = confirm(outcome); !status.ok()) return status;
  outcome.rounds = rounds_;
  for (Work& work : works_) {
    if (work.told.improved) {
      work.told.schedule = work.search->best();
      compiler::pinWorkload(outcome.pins, work.told.hash, work.told.summary, work.told.schedule);
    }
    outcome.workloads.push_back(work.told);
  }
  return outcome;
}

}  // namespace

absl::StatusOr<TuningOutcome> tune(Channel& channel, const CompileRequest& request, const TuningOptions& options,
                                   const TuningProgress& progress) {
  return Tuner(channel, request, options, progress).run();
}

}  // namespace tessera::client
