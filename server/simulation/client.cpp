#include "server/simulation/client.h"

#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/queue/jobs.h"

namespace tessera::server::simulation {
namespace {

v1::Target target() {
  v1::Target target;
  target.set_name("test-target");
  return target;
}

}  // namespace

std::string modelBytes(int64_t model) {
  static constexpr const char* kUnits[] = {"a b", "b c", "d", "a c e", ""};
  return absl::StrCat("model m", model, ": ", kUnits[model % 5]);
}

std::string artifactBytes(const World& world, const std::string& model) {
  std::map<std::string, std::string> files;
  const FakeWork work = world.work(files);
  v1::TaskSpec plan;
  plan.set_kind(v1::PLAN);
  plan.mutable_plan()->mutable_spec()->mutable_model()->set_sha256(sha256Hex(model));
  *plan.mutable_plan()->mutable_target() = target();
  files[sha256Hex(model)] = model;
  const v1::TaskResult planned = work.run(plan);
  v1::TaskSpec assemble;
  assemble.set_kind(v1::ASSEMBLE);
  for (const v1::OutputFile& file : planned.files()) {
    if (file.name() == planned.plan().plan_file()) {
      *assemble.mutable_assemble()->mutable_plan() = file.digest();
    } else if (file.name() == planned.plan().weights_file()) {
      *assemble.mutable_assemble()->mutable_weights() = file.digest();
    } else {
      v1::TaskSpec build;
      build.set_kind(v1::BUILD);
      *build.mutable_build()->mutable_unit() = file.digest();
      *assemble.mutable_assemble()->add_objects() = work.run(build).files(0).digest();
    }
  }
  return files[work.run(assemble).files(0).digest().sha256()];
}

Client::Client(World& world, int number) : world_(world), caller_(world), number_(number) {}

void Client::start() {
  world_.loop.after(world_.dice.between(0, 3'000'000), [this] { next(); });
}

void Client::next() {
  if (asked_ == world_.options.jobs_per_client) {
    done_ = true;
    return;
  }
  wanted_ = Promise();
  wanted_.model = modelBytes(world_.dice.below(world_.options.models));
  request_.Clear();
  request_.set_request_id(absl::StrCat("client-", number_, "-", ++asked_));
  v1::Digest* model = request_.mutable_compile()->mutable_model();
  model->set_sha256(sha256Hex(wanted_.model));
  model->set_size_bytes(static_cast<int64_t>(wanted_.model.size()));
  request_.set_priority(static_cast<int32_t>(world_.dice.below(3)));
  request_.set_client(absl::StrCat("client-", number_));
  if (world_.dice.percent(world_.options.wrong_sizes)) {
    model->set_size_bytes(model->size_bytes() + world_.dice.between(1, 1000));
    wanted_.impossible = true;
  }
  if (world_.dice.percent(world_.options.unequal_limits)) {
    wanted_.hurried = true;
    switch (world_.dice.below(3)) {
      case 0:
        request_.set_queue_timeout_us(world_.dice.between(1'000'000, 20'000'000));
        break;
      case 1:
        request_.set_run_timeout_us(world_.dice.between(3'000'000, 20'000'000));
        break;
      default:
        request_.set_total_timeout_us(world_.dice.between(3'000'000, 40'000'000));
    }
  }
  upload();
}

void Client::upload() {
  const std::string bytes = wanted_.model;
  caller_.call<absl::Status>(
      [this, bytes]() -> absl::Status {
        TESSERA_ASSIGN_OR_RETURN(const auto digest, world_.blobs().put(bytes));
        // The row is stored by an event of its own; the caller repeats the call until the row exists.
        const v1::Digest& row = digest;
        world_.send(true, [this, row] {
          const absl::Status status = world_.store().transact([&](storage::Transaction& tx) -> absl::Status {
            // A crash may have lost the upload.
            return world_.blobs().contains(row.sha256()) ? tx.putBlob(row, kDefaultProject) : absl::OkStatus();
          });
          if (!status.ok()) {
            world_.wrong(absl::StrCat("a blob's row: ", status.ToString()));
          }
        });
        bool known = false;
        absl::Status status = world_.store().read([&](storage::Reader& reader) {
          known = reader.hasBlob(row.sha256()).value_or(false);
          return absl::OkStatus();
        });
        return known ? status : absl::UnavailableError("not yet");
      },
      [this](const absl::Status& status) {
        if (status.ok()) {
          create();
        } else {
          world_.loop.after(100'000, [this] { upload(); });
        }
      });
}

void Client::create() {
  const v1::CreateJobRequest request = request_;
  caller_.call<absl::StatusOr<v1::Job>>([this, request] { return world_.scheduler().createJob(request, target()); },
                                        [this](const absl::StatusOr<v1::Job>& job) {
                                          if (job.ok()) {
                                            job_id_ = job->id();
                                            learn(*job);
                                            return watch();
                                          }
                                          if (wanted_.impossible) {
                                            return next();  // correctly rejected
                                          }
                                          world_.wrong(absl::StrCat("create: ", job.status().ToString()));
                                          done_ = true;
                                        });
}

void Client::learn(const v1::Job& job) {
  auto [known, fresh] = promises_.emplace(job.id(), wanted_);
  Promise& promise = known->second;
  if (!fresh && isTerminal(promise.job.state()) && promise.job.SerializeAsString() != job.SerializeAsString()) {
    world_.wrong(absl::StrCat(job.id(), " changed after its end"));
  }
  if (!fresh && promise.job.state() > job.state()) {
    world_.wrong(absl::StrCat(job.id(), " went back from ", v1::Job::State_Name(promise.job.state()), " to ",
                              v1::Job::State_Name(job.state())));
  }
  if (fresh && promises_.size() > static_cast<size_t>(asked_)) {
    world_.wrong(absl::StrCat("request ", request_.request_id(), " made a second job, ", job.id()));
  }
  promise.job = job;
}

void Client::watch() {
  const std::string id = job_id_;
  const bool cancel = world_.dice.percent(world_.options.cancels) && !world_.healed();
  const auto learned = [this, id](const absl::StatusOr<v1::Job>& job) {
    if (!job.ok()) {
      world_.wrong(absl::StrCat("job ", id, " was acknowledged: ", job.status().ToString()));
      done_ = true;
      return;
    }
    learn(*job);
    if (isTerminal(job->state())) {
      world_.note(absl::StrCat(id, " ended as ", v1::Job::State_Name(job->state())));
      return next();
    }
    world_.loop.after(kPollUs, [this] { watch(); });
  };
  if (cancel) {
    promises_.at(id).cancelled = true;
    return caller_.call<absl::StatusOr<v1::Job>>([this, id] { return world_.scheduler().cancelJob(id); }, learned);
  }
  caller_.call<absl::StatusOr<v1::Job>>(
      [this, id] {
        absl::StatusOr<v1::Job> job = absl::UnknownError("not read");
        const absl::Status status = world_.store().read([&](storage::Reader& reader) {
          job = reader.getJob(id);
          return absl::OkStatus();
        });
        return status.ok() ? job : absl::StatusOr<v1::Job>(status);
      },
      learned);
}

}  // namespace tessera::server::simulation
