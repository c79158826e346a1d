#include "server/testing/faulty_service.h"

#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/queue/jobs.h"
#include "server/retention/collector.h"
#include "storage/stored_key.h"

namespace tessera::server {
namespace {

constexpr const char* kFolder = "/data";
constexpr const char* kWorker = "remote-1";
/// A step that fails this often, with the power on and one planned fault, is stuck.
constexpr int kMaxFailures = 40;
/// Retention time of unused objects.
constexpr int64_t kKept = int64_t{3600} * 1'000'000;

v1::Digest digestOf(const std::string& bytes) {
  v1::Digest digest;
  digest.set_sha256(sha256Hex(bytes));
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

/// Several chunks long, so that an upload can be interrupted.
std::string modelOf(const std::string& name, const std::string& units) {
  return absl::StrCat("model ", name, std::string(20'000, '.'), ": ", units);
}

}  // namespace

FaultyService::FaultyService(const char* synchronous) : files_(storage::filesOn(disk_)), vfs_(disk_) {
  options_.vfs = vfs_.name().c_str();
  if (synchronous != nullptr) {
    options_.synchronous = synchronous;
  }
  options_.checkpoint_pages = 40;
  options_.readers = 1;  // one is used at a time, and each opens the file
  disk_.makeFolder(kFolder);
  disk_.syncFolder("/");
}

FaultyService::~FaultyService() { close(); }

absl::Status FaultyService::open() {
  auto store = storage::openSqliteStore(absl::StrCat(kFolder, "/tessera.db"), options_);
  TESSERA_RETURN_IF_ERROR(store.status());
  store_ = *std::move(store);
  storage::BlobStoreOptions blob_options;
  blob_options.files = files_.get();
  blob_options.rows = store_.get();
  blob_options.most_row_bytes = 10'000;  // models become files
  auto blobs = storage::openBlobStore(absl::StrCat(kFolder, "/blobs"), blob_options);
  if (blobs.ok()) {
    blobs_ = *std::move(blobs);
    scheduler_ =
        std::make_unique<Scheduler>(*store_, *blobs_, clock_, ids_, workflows_, SchedulerFixture::defaultRules());
    const absl::Status recovered = scheduler_->recover("local-");
    if (recovered.ok()) {
      return recovered;
    }
    close();
    return recovered;
  }
  close();
  return blobs.status();
}

void FaultyService::close() {
  scheduler_.reset();
  blobs_.reset();
  store_.reset();
}

void FaultyService::restart(const Faults& faults) {
  close();
  struck_ = struck_ || disk_.struck();
  operations_ += disk_.operations();
  disk_.restart(faults.survival, faults.seed);
  if (const absl::Status status = open(); !status.ok()) {
    wrong(absl::StrCat("does not start again: ", std::string(status.message())));
  }
}

void FaultyService::run(const Faults& faults) {
  disk_.plan(faults.plan);
  size_t next = 0;
  int failures = 0;
  const auto all = steps();
  while (next < all.size() && failures < kMaxFailures && problems_.empty()) {
    const bool is_open = scheduler_ != nullptr;
    const absl::Status status = is_open ? all[next]() : open();
    if (disk_.powerLost()) {
      restart(faults);
      if (problems_.empty()) {
        verify("after the power came back");
      }
    } else if (!status.ok()) {
      ++failures;
      if (failures == kMaxFailures) {
        wrong(absl::StrCat("step ", next, " fails again and again: ", std::string(status.message())));
      }
    } else if (is_open) {
      ++next;
      failures = 0;
    }
  }
  if (!problems_.empty()) {
    return;
  }
  disk_.cutPower();
  restart({{}, storage::FaultyDisk::Survival::kNothing, 0});
  if (problems_.empty()) {
    verify("in the end");
  }
}

absl::Status FaultyService::upload(const std::string& bytes) {
  const v1::Digest digest = digestOf(bytes);
  TESSERA_ASSIGN_OR_RETURN(const int64_t committed, blobs_->committedBytes(digest));
  TESSERA_ASSIGN_OR_RETURN(const auto upload, blobs_->startUpload(digest, committed));
  for (auto at = static_cast<size_t>(committed); at < bytes.size(); at += 8'000) {
    TESSERA_RETURN_IF_ERROR(upload->write(std::string_view(bytes).substr(at, 8'000)));
  }
  const bool together = blobs_->becomesRow(digest.size_bytes());
  TESSERA_RETURN_IF_ERROR(together ? absl::OkStatus() : upload->commit());
  TESSERA_RETURN_IF_ERROR(store_->transact([&](storage::Transaction& tx) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(together ? upload->commit() : absl::OkStatus());
    TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, kDefaultProject, clock_.nowMicros()));
    return tx.touch(storage::Kind::kBlob, digest.sha256(), clock_.nowMicros());
  }));
  uploaded_[digest.sha256()] = bytes;
  return absl::OkStatus();
}

absl::Status FaultyService::create(const v1::CreateJobRequest& request) {
  v1::Target target;
  target.set_name("test-target");
  // Like the service.
  Executor executor(1);
  std::promise<absl::StatusOr<v1::Job>> answer;
  scheduler_->createJobThen(
      request, target, kDefaultProject, nullptr, [] { return false; }, executor,
      [&](absl::StatusOr<v1::Job> job) { answer.set_value(std::move(job)); });
  TESSERA_ASSIGN_OR_RETURN(const v1::Job job, answer.get_future().get());
  const auto [known, fresh] = job_ids_.emplace(request.request_id(), job.id());
  if (!fresh && known->second != job.id()) {
    wrong(absl::StrCat("request ", request.request_id(), " made ", known->second, " and then ", job.id()));
  }
  promised_[job.id()] = job;
  return absl::OkStatus();
}

absl::Status FaultyService::compile(const std::string& request_id, const std::string& model) {
  v1::CreateJobRequest request;
  request.set_request_id(request_id);
  *request.mutable_compile()->mutable_model() = digestOf(model);
  return create(request);
}

absl::Status FaultyService::execute(const std::string& request_id, const std::string& compiled_by) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Job compiled, job(compiled_by));
  const std::string tensor(9'000, 't');
  TESSERA_RETURN_IF_ERROR(upload(tensor));
  v1::CreateJobRequest request;
  request.set_request_id(request_id);
  request.mutable_execute()->set_artifact_id(compiled.compile_result().artifact_id());
  v1::TensorValue& input = *request.mutable_execute()->add_inputs();
  input.mutable_spec()->set_name("x");
  input.mutable_spec()->set_dtype(v1::DATA_TYPE_F32);
  input.mutable_spec()->add_shape(1);
  *input.mutable_blob() = digestOf(tensor);
  return create(request);
}

absl::Status FaultyService::cancel(const std::string& request_id) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Job job, scheduler_->cancelJob(job_ids_.at(request_id)));
  promised_[job.id()] = job;
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> FaultyService::job(const std::string& request_id) {
  v1::Job job;
  TESSERA_RETURN_IF_ERROR(store_->read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(job, reader.getJob(job_ids_.at(request_id)));
    return absl::OkStatus();
  }));
  promised_[job.id()] = job;
  return job;
}

absl::Status FaultyService::workOnce(bool& idle) {
  if (!registered_) {
    v1::RegisterWorkerRequest request;
    request.set_worker_id(kWorker);
    request.set_pid(1);
    request.set_compiler_version(scheduler_->rules().compiler_version);
    TESSERA_RETURN_IF_ERROR(scheduler_->registerWorker(request).status());
    registered_ = true;
  }
  if (lease_.task_id().empty()) {
    TESSERA_ASSIGN_OR_RETURN(const v1::LeaseTaskResponse response, scheduler_->leaseTask(kWorker));
    lease_ = response.lease();
    idle = lease_.task_id().empty();
    return absl::OkStatus();
  }
  absl::Status status;
  std::map<std::string, std::string> enclosed;
  FakeWork work(
      [&](const v1::Digest& digest) {
        if (const auto made = enclosed.find(digest.sha256()); made != enclosed.end()) {
          return made->second;
        }
        auto bytes = read(digest.sha256());
        status.Update(bytes.status());
        return bytes.ok() ? *bytes : std::string();
      },
      [&](const std::string& bytes) {
        // Large outputs are uploaded, small ones sent within the report.
        if (bytes.size() > 5'000) {
          status.Update(upload(bytes));
        } else {
          enclosed[digestOf(bytes).sha256()] = bytes;
        }
        return digestOf(bytes);
      });
  work.finishes_small = true;
  v1::ReportTaskRequest report;
  report.set_worker_id(kWorker);
  report.set_task_id(lease_.task_id());
  report.set_fencing_token(lease_.fencing_token());
  report.set_secret(lease_.secret());
  *report.mutable_result() = work.run(lease_.task());
  for (v1::OutputFile& file : *report.mutable_result()->mutable_files()) {
    if (const auto made = enclosed.find(file.digest().sha256()); made != enclosed.end()) {
      file.set_data(made->second);
    }
  }
  TESSERA_RETURN_IF_ERROR(status);
  TESSERA_RETURN_IF_ERROR(scheduler_->heartbeat({}).status());
  status = scheduler_->reportTask(report);
  if (status.ok() || absl::IsAborted(status)) {
    lease_.Clear();
    status = absl::OkStatus();
  }
  return status;
}

absl::Status FaultyService::work() {
  // Each pass makes progress, or lets a lease expire that the worker has not learned of.
  for (int pass = 0; pass < 400; ++pass) {
    bool all_ended = true;
    for (const auto& [request, id] : job_ids_) {
      TESSERA_ASSIGN_OR_RETURN(const v1::Job current, job(request));
      all_ended = all_ended && isTerminal(current.state());
    }
    if (all_ended) {
      return absl::OkStatus();
    }
    bool idle = false;
    TESSERA_RETURN_IF_ERROR(workOnce(idle));
    if (idle) {
      clock_.advance(scheduler_->rules().lease_us + 1);
      TESSERA_RETURN_IF_ERROR(scheduler_->sweep());
    }
  }
  wrong("work goes on and on");
  return absl::OkStatus();
}

absl::Status FaultyService::endedAs(const std::string& request_id, v1::Job::State state) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Job current, job(request_id));
  if (current.state() != state) {
    wrong(absl::StrCat(request_id, " ended as ", v1::Job::State_Name(current.state()), ": ",
                       current.failure().message()));
  }
  return absl::OkStatus();
}

absl::Status FaultyService::pinArtifactOf(const std::string& request_id) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Job compiled, job(request_id));
  const std::string& id = compiled.compile_result().artifact_id();
  TESSERA_RETURN_IF_ERROR(store_->transact([&](storage::Transaction& tx) {
    return tx.setPin(storage::Kind::kArtifact, storage::storedKey(kDefaultProject, id), true);
  }));
  TESSERA_ASSIGN_OR_RETURN(pinned_[id], read(id));
  return absl::OkStatus();
}

absl::Status FaultyService::growOld() {
  clock_.advance(10 * kKept);
  job_ids_.clear();
  promised_.clear();
  uploaded_ = pinned_;
  return absl::OkStatus();
}

absl::Status FaultyService::collect() {
  v1::RetentionPolicy policy;
  policy.set_jobs_us(kKept);
  policy.set_events_us(kKept);
  policy.set_artifacts_us(kKept);
  policy.set_objects_us(kKept);
  policy.set_blobs_us(kKept);
  return Collector(*store_, *blobs_, clock_).collect(policy, false).status();
}

absl::Status FaultyService::isGone(const std::string& bytes) {
  return store_->read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const bool there, reader.hasBlob(digestOf(bytes).sha256()));
    if (there) {
      wrong("a blob that nothing names was not collected");
    }
    return absl::OkStatus();
  });
}

std::vector<std::function<absl::Status()>> FaultyService::steps() {
  const std::string first = modelOf("first", "a b c");
  const std::string second = modelOf("second", "b d");
  const std::string unwanted = modelOf("unwanted", "e");
  const std::string late = modelOf("late", "b");
  const std::string fresh(11'000, 'f');
  return {
      [=, this] { return upload(first); },
      [=, this] { return compile("first", first); },
      [=, this] { return upload(second); },
      [=, this] { return compile("second", second); },
      [=, this] { return compile("joins", first); },
      [=, this] { return upload(unwanted); },
      [=, this] { return compile("unwanted", unwanted); },
      [=, this] { return cancel("unwanted"); },
      [=, this] { return work(); },
      [=, this] { return compile("cached", second); },
      [=, this] { return execute("run", "first"); },
      [=, this] { return work(); },
      [=, this] { return endedAs("first", v1::Job::SUCCEEDED); },
      [=, this] { return endedAs("second", v1::Job::SUCCEEDED); },
      [=, this] { return endedAs("joins", v1::Job::SUCCEEDED); },
      [=, this] { return endedAs("cached", v1::Job::SUCCEEDED); },
      [=, this] { return endedAs("run", v1::Job::SUCCEEDED); },
      [=, this] { return endedAs("unwanted", v1::Job::CANCELLED); },
      [=, this] { return pinArtifactOf("second"); },
      [=, this] { return growOld(); },
      [=, this] { return upload(late); },
      [=, this] { return compile("late", late); },
      [=, this] { return upload(fresh); },
      [=, this] { return collect(); },
      [=, this] { return isGone(first); },
      [=, this] { return work(); },
      [=, this] { return endedAs("late", v1::Job::SUCCEEDED); },
  };
}

absl::StatusOr<std::string> FaultyService::read(const std::string& sha256) {
  std::string bytes;
  TESSERA_RETURN_IF_ERROR(blobs_->get(sha256, 0, 0, [&](std::string_view chunk) {
    bytes += chunk;
    return absl::OkStatus();
  }));
  return bytes;
}

void FaultyService::verify(const std::string& when) {
  const absl::Status status = store_->read([&](storage::Reader& reader) -> absl::Status {
    for (const auto& [sha256, bytes] : uploaded_) {
      TESSERA_ASSIGN_OR_RETURN(const bool known, reader.hasBlob(sha256));
      const auto found = read(sha256);
      if (!known || !found.ok() || *found != bytes) {
        wrong(absl::StrCat(when, ": blob ", sha256.substr(0, 8), " was acknowledged; row ", known, ", file ",
                           found.status().ToString()));
      }
    }
    for (const auto& [id, promised] : promised_) {
      verifyJob(reader, id, promised, when);
    }
    return verifyRows(reader, when);
  });
  if (!status.ok()) {
    wrong(absl::StrCat(when, ": ", status.ToString()));
  }
}

absl::Status FaultyService::verifyRows(storage::Reader& reader, const std::string& when) {
  return reader.forEach(storage::Kind::kBlob, [&](const storage::Stored& stored) -> absl::Status {
    const auto size = reader.blobSize(stored.id);
    const auto bytes = read(stored.id);
    if (size.ok() && (!bytes.ok() || static_cast<int64_t>(bytes->size()) != *size)) {
      wrong(absl::StrCat(when, ": the row of blob ", stored.id.substr(0, 8), " says that there are ", *size,
                         " bytes; its file: ", bytes.status().ToString()));
    }
    return absl::OkStatus();
  });
}

void FaultyService::verifyJob(storage::Reader& reader, const std::string& id, const v1::Job& promised,
                              const std::string& when) {
  const auto found = reader.getJob(id);
  if (!found.ok()) {
    return wrong(absl::StrCat(when, ": job ", id, " was acknowledged: ", found.status().ToString()));
  }
  if (found->state() < promised.state() || (isTerminal(promised.state()) && found->state() != promised.state())) {
    wrong(absl::StrCat(when, ": job ", id, " was ", v1::Job::State_Name(promised.state()), " and is ",
                       v1::Job::State_Name(found->state())));
  }
  const auto events = eventsOf(reader, *found, 0, 10'000);
  if (!events.ok()) {
    return wrong(absl::StrCat(when, ": events of ", id, ": ", events.status().ToString()));
  }
  int ends = 0;
  for (size_t i = 0; i < events->size(); ++i) {
    const v1::JobEvent& event = (*events)[i];
    if (event.sequence() != static_cast<int64_t>(i) + 1) {
      wrong(absl::StrCat(when, ": events of ", id, " have a gap before ", event.sequence()));
    }
    ends += event.has_state() && isTerminal(event.state().state()) ? 1 : 0;
  }
  if (ends != (isTerminal(found->state()) ? 1 : 0)) {
    wrong(absl::StrCat(when, ": job ", id, " is ", v1::Job::State_Name(found->state()), " after ", ends, " ends"));
  }
  if (found->state() == v1::Job::SUCCEEDED && found->has_compile_result()) {
    const std::string& artifact = found->compile_result().artifact().sha256();
    if (const auto bytes = read(artifact); !bytes.ok()) {
      wrong(absl::StrCat(when, ": the artifact of ", id, ": ", bytes.status().ToString()));
    }
  }
}

}  // namespace tessera::server
