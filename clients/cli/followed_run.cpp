#include "clients/cli/followed_run.h"

#include <atomic>
#include <chrono>
#include <iostream>
#include <list>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/latency.h"
#include "clients/cli/output.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cpp/versions.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using Clock = std::chrono::steady_clock;

/// A version that is loaded into memory.
struct Loaded {
  v1::ArtifactVersion version;
  LocalArtifact artifact;
};

/// The consecutive runs of one version.
struct VersionRuns {
  v1::ArtifactVersion version;
  double from_ms = 0;  ///< start of its first run, since the command began
  std::vector<double> times_ms;
};

class Follower {
 public:
  Follower(const FollowOptions& run, Channel& channel, Clock::time_point begun)
      : run_(run), channel_(channel), begun_(begun) {}

  absl::Status run() {
    std::thread watch([this] {
      absl::Status status = watchVersions(channel_, run_.job, stop_,
                                          [this](const v1::ArtifactVersion& version) { return fetch(version); });
      if (status.ok()) status = missing_;
      const std::lock_guard lock(mutex_);
      watched_ = std::move(status);
      over_ = true;
    });
    absl::Status status = loop();
    stop_ = true;
    watch.join();
    return status;
  }

  const std::list<VersionRuns>& stretches() const { return stretches_; }
  RunBuffers& buffers() { return buffers_; }

 private:
  double elapsedMs() const { return std::chrono::duration<double, std::milli>(Clock::now() - begun_).count(); }

  /// Runs on the watching thread, so that downloads do not delay the runs.
  absl::Status fetch(const v1::ArtifactVersion& version) {
    auto fetched = fetchArtifact(channel_, version, run_.trust, false);
    if (absl::IsNotFound(fetched.status())) {  // a newer version may have replaced it: an error only for the last one
      missing_ = absl::NotFoundError(
          absl::StrCat("version ", version.number(), " of job ", run_.job, ": ", fetched.status().message()));
      return absl::OkStatus();
    }
    if (!fetched.ok()) return fetched.status();
    missing_ = absl::OkStatus();
    const std::lock_guard lock(mutex_);
    newest_ = std::make_shared<Loaded>(Loaded{version, *std::move(fetched)});
    return absl::OkStatus();
  }

  /// Returns the newest version, unless it is the running one.
  std::shared_ptr<Loaded> takeNewest() {
    const std::lock_guard lock(mutex_);
    return std::exchange(newest_, nullptr);
  }

  absl::Status begin(const Loaded& first) {
    TESSERA_RETURN_IF_ERROR(buffers_.prepare(first.artifact.get(), run_.inputs));
    TESSERA_ASSIGN_OR_RETURN(session_, createSession(first.artifact.get(), run_.threads, buffers_.variant));
    return absl::OkStatus();
  }

  absl::Status goOver(std::shared_ptr<Loaded> next) {
    if (session_ == nullptr) {
      TESSERA_RETURN_IF_ERROR(begin(*next));
    } else if (const tessera_status code = tessera_session_replace(session_.get(), next->artifact.get());
               code != TESSERA_OK) {
      return runtimeError(code);
    }
    stretches_.push_back({next->version, 0, {}});
    runs_ = std::move(next);  // the previous version's bytes are no longer needed
    return absl::OkStatus();
  }

  absl::Status once() {
    const auto start = Clock::now();
    const tessera_status code = tessera_session_run(session_.get(), buffers_.in.data(), buffers_.in.size(),
                                                    buffers_.out.data(), buffers_.out.size());
    if (code != TESSERA_OK) return runtimeError(code);
    stretches_.back().times_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    if (stretches_.back().times_ms.size() == 1) stretches_.back().from_ms = elapsedMs();
    buffers_.takeExtents(session_.get());
    return absl::OkStatus();
  }

  absl::Status loop() {
    while (true) {
      bool over = false;
      {
        const std::lock_guard lock(mutex_);
        if (over_ && !watched_.ok()) return watched_;
        over = over_;
      }
      if (auto next = takeNewest(); next != nullptr) {
        TESSERA_RETURN_IF_ERROR(goOver(std::move(next)));
      }
      // Even at the end of the window, the current version runs at least once.
      const bool late = run_.window_us > 0 && elapsedMs() * 1000 >= static_cast<double>(run_.window_us);
      if (session_ != nullptr && (!late || stretches_.back().times_ms.empty())) {
        TESSERA_RETURN_IF_ERROR(once());
      }
      if (late || (run_.window_us == 0 && over)) {
        return session_ != nullptr ? absl::OkStatus()
                                   : absl::NotFoundError(absl::StrCat("job ", run_.job, " had no artifact to run"));
      }
      // No version yet: poll without occupying a core.
      if (session_ == nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  const FollowOptions& run_;
  Channel& channel_;
  const Clock::time_point begun_;
  std::atomic<bool> stop_ = false;
  absl::Status missing_;  // used by the watching thread: why the newest version is unavailable
  std::mutex mutex_;      // protects the next three members
  std::shared_ptr<Loaded> newest_;
  absl::Status watched_;
  bool over_ = false;
  std::shared_ptr<Loaded> runs_;
  RunBuffers buffers_;
  LocalSession session_{nullptr, &tessera_session_destroy};  // destroyed before runs_, which it uses
  std::list<VersionRuns> stretches_;
};

}  // namespace

int followJob(const CommandLine& line, const FollowOptions& run) {
  const Clock::time_point begun = Clock::now();
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  Follower follower(run, **channel, begun);
  if (absl::Status status = follower.run(); !status.ok()) return reportError(status, line.json);
  int runs = 0;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> versions;
  for (const VersionRuns& stretch : follower.stretches()) {
    if (stretch.times_ms.empty()) continue;  // a newer version arrived before its first run
    const Latency latency = summarize(stretch.times_ms);
    runs += latency.runs;
    rows.push_back({absl::StrCat(stretch.version.number()), absl::StrCat(stretch.version.tuned_workloads()),
                    absl::StrFormat("%.2f", stretch.from_ms / 1000), absl::StrCat(latency.runs),
                    millisecondsText(latency.median), stretch.version.artifact_id().substr(0, 12)});
    versions.push_back(absl::StrFormat(R"({"number":%d,"artifact_id":%s,"from_ms":%.3f,"runs":%d,"median_ms":%.6f})",
                                       stretch.version.number(), jsonString(stretch.version.artifact_id()),
                                       stretch.from_ms, latency.runs, latency.median));
  }
  RunBuffers& buffers = follower.buffers();
  OutputFolder folder(run.output_folder);
  if (!run.output_folder.empty()) {
    for (size_t i = 0; i < buffers.out.size(); ++i) {
      absl::Status status = folder.write(buffers.output_specs[i], {static_cast<const char*>(buffers.out[i].data),
                                                                   static_cast<size_t>(buffers.out_bytes[i])});
      if (!status.ok()) return reportError(status, line.json);
    }
  }
  if (line.json) {
    std::cout << absl::StrCat("{\"runs\":", runs, ",\"threads\":", run.threads, ",\"versions\":[",
                              absl::StrJoin(versions, ","),
                              "],\"outputs\":", outputsJson(buffers.output_specs, folder.files()), "}\n");
    return 0;
  }
  std::cout << table({"VERSION", "TUNED", "FROM s", "RUNS", "MEDIAN ms", "ARTIFACT"}, rows) << runs << " runs, "
            << run.threads << (run.threads == 1 ? " thread\n" : " threads\n");
  for (size_t i = 0; i < folder.files().size(); ++i) {
    std::cout << "  " << buffers.output_specs[i].name() << inFile(folder, i) << "\n";
  }
  return 0;
}

}  // namespace tessera::client
