#include "server/simulation/worker.h"

#include <vector>

#include "proto/support/status_macros.h"

namespace tessera::server::simulation {
namespace {

constexpr int64_t kLongestRunUs = 5'000'000;
constexpr int64_t kHeartbeatUs = 2'000'000;

}  // namespace

Worker::Worker(World& world, int number)
    : world_(world),
      caller_(world),
      heart_(world),
      id_(absl::StrCat("remote-", number)),
      sick_(world.dice.percent(world.options.sick_workers)),
      untold_(world.dice.percent(world.options.untold)) {
  world_.sound_workers += sick_ ? 0 : 1;
}

void Worker::start() {
  registerSelf();
  if (world_.options.worker_incident_us > 0) {
    world_.loop.after(world_.dice.between(1, 2 * world_.options.worker_incident_us), [this] { incident(); });
  }
}

void Worker::heal() {
  if (busy_ && attempt_.hangs) {
    die();
  }
}

void Worker::registerSelf() {
  v1::RegisterWorkerRequest request;
  request.set_worker_id(id_);
  request.set_pid(pid_);
  request.set_compiler_version("test-compiler");
  caller_.call<absl::Status>([this, request] { return world_.scheduler().registerWorker(request).status(); },
                             [this](const absl::Status& status) {
                               if (!status.ok()) {
                                 world_.wrong(absl::StrCat("register: ", status.ToString()));
                               }
                               lease();
                             });
}

void Worker::lease() {
  caller_.call<absl::StatusOr<v1::LeaseTaskResponse>>(
      [this] { return world_.scheduler().leaseTask(id_); },
      [this](const absl::StatusOr<v1::LeaseTaskResponse>& answer) {
        if (absl::IsFailedPrecondition(answer.status())) {
          return registerSelf();
        }
        if (!answer.ok()) {
          return world_.wrong(absl::StrCat("lease: ", answer.status().ToString()));
        }
        if (!answer->lease().task_id().empty()) {
          return run(answer->lease());
        }
        world_.loop.after(kPollUs, [this, life = life_] {
          if (life == life_) lease();
        });
      });
}

void Worker::run(const v1::Lease& lease) {
  world_.note(absl::StrCat(id_, " runs ", lease.task_id(), " under ", lease.fencing_token()));
  attempt_ = Attempt();
  attempt_.lease = lease;
  attempt_.begun_us = world_.loop.now_us();
  busy_ = true;
  for (const v1::Digest& input : lease.task().inputs()) {
    // The download succeeds at once, since the server has just answered. A result needs its inputs.
    std::string bytes;
    if (world_.up()) {
      const absl::Status status = world_.blobs().get(input.sha256(), 0, 0, [&](std::string_view chunk) {
        bytes += chunk;
        return absl::OkStatus();
      });
      if (!status.ok()) {
        world_.wrong(absl::StrCat("an input of ", lease.task_id(), " is not to be had: ", status.ToString()));
      }
    }
    attempt_.files[input.sha256()] = bytes;
  }
  const bool faults = !world_.healed();
  attempt_.hangs = faults && world_.dice.percent(world_.options.hangs);
  if (!world_.up()) {
    attempt_.result.mutable_failure()->set_reason(v1::Failure::CANCELLED);
    attempt_.result.mutable_failure()->set_message("could not get its inputs, gives the task back");
  } else if (faults && sick_ && !untold_) {
    attempt_.result = failedResult(v1::Failure::WORKER_FAULT);
  } else if (faults && (sick_ || world_.dice.percent(world_.options.child_crashes))) {
    attempt_.result = failedResult(v1::Failure::CRASHED);
  } else {
    std::map<std::string, std::string> made = attempt_.files;
    attempt_.result = world_.work(made).run(lease.task());
    attempt_.files = std::move(made);
  }
  world_.loop.after(world_.dice.between(10'000, kLongestRunUs), [this, life = life_] {
    if (life == life_ && !attempt_.hangs) finish();
  });
  world_.loop.after(kHeartbeatUs, [this, life = life_, token = lease.fencing_token()] {
    if (life == life_ && busy_ && attempt_.lease.fencing_token() == token) beat();
  });
}

void Worker::beat() {
  v1::HeartbeatRequest request;
  request.set_worker_id(id_);
  request.set_task_id(attempt_.lease.task_id());
  request.set_fencing_token(attempt_.lease.fencing_token());
  request.set_secret(attempt_.lease.secret());
  request.set_run_us(attempt_.ended ? 0 : world_.loop.now_us() - attempt_.begun_us);
  heart_.call<v1::HeartbeatResponse::Verdict>(
      [this, request] {
        const auto answer = world_.scheduler().heartbeat(request);
        return answer.ok() ? answer->verdict() : v1::HeartbeatResponse::VERDICT_UNSPECIFIED;
      },
      [this, request](v1::HeartbeatResponse::Verdict verdict) {
        if (!busy_ || attempt_.lease.task_id() != request.task_id() ||
            attempt_.lease.fencing_token() != request.fencing_token()) {
          return;
        }
        if (verdict == v1::HeartbeatResponse::ABORT_CANCELLED || verdict == v1::HeartbeatResponse::ABORT_LOST) {
          world_.note(absl::StrCat(id_, " drops ", request.task_id()));
          busy_ = false;
          ++life_;
          return lease();
        }
        world_.loop.after(kHeartbeatUs, [this, life = life_, token = request.fencing_token()] {
          if (life == life_ && busy_ && attempt_.lease.fencing_token() == token) beat();
        });
      });
}

void Worker::finish() {
  attempt_.ended = true;
  uploadOutputs();
}

absl::Status Worker::answerUpload(const std::string& bytes) {
  TESSERA_ASSIGN_OR_RETURN(const auto digest, world_.blobs().put(bytes));
  return world_.store().transact([&](storage::Transaction& tx) { return tx.putBlob(digest, ""); });
}

void Worker::uploadOutputs() {
  std::vector<std::string> outputs;
  for (const v1::OutputFile& file : attempt_.result.files()) {
    outputs.push_back(attempt_.files[file.digest().sha256()]);
  }
  caller_.call<absl::Status>(
      [this, outputs]() -> absl::Status {
        for (const std::string& bytes : outputs) {
          TESSERA_RETURN_IF_ERROR(answerUpload(bytes));
        }
        return absl::OkStatus();
      },
      [this](const absl::Status& status) {
        if (!status.ok()) {
          world_.wrong(absl::StrCat("upload of outputs: ", status.ToString()));
        }
        report();
      });
}

v1::ReportTaskRequest Worker::reportOf(const Attempt& attempt) const {
  v1::ReportTaskRequest request;
  request.set_worker_id(id_);
  request.set_task_id(attempt.lease.task_id());
  request.set_fencing_token(attempt.lease.fencing_token());
  request.set_secret(attempt.lease.secret());
  *request.mutable_result() = attempt.result;
  return request;
}

absl::Status Worker::fileReport(const v1::ReportTaskRequest& request) {
  const auto look = [&] {
    v1::Task task;
    const absl::Status status = world_.store().read([&](storage::Reader& reader) {
      task = reader.getTask(request.task_id()).value_or(v1::Task());
      return absl::OkStatus();
    });
    return status.ok() ? task : v1::Task();
  };
  const v1::Task before = look();
  const absl::Status status = world_.scheduler().reportTask(request);
  const v1::Task after = look();
  const bool holds = before.state() == v1::Task::LEASED && before.worker_id() == request.worker_id() &&
                     before.fencing_token() == request.fencing_token();
  if (!holds && before.SerializeAsString() != after.SerializeAsString()) {
    world_.wrong(absl::StrCat("a report of ", request.task_id(), " under token ", request.fencing_token(),
                              " had an effect while ", before.fencing_token(), " was the newest"));
  }
  return status;
}

void Worker::report() {
  const v1::ReportTaskRequest request = reportOf(attempt_);
  caller_.call<absl::Status>([this, request] { return fileReport(request); },
                             [this](const absl::Status& status) {
                               world_.note(absl::StrCat(id_, " reported ", attempt_.lease.task_id(), ": ",
                                                        absl::StatusCodeToString(status.code())));
                               if (absl::IsFailedPrecondition(status)) {
                                 return uploadOutputs();  // the server has lost an output that it had not acknowledged
                               }
                               if (!status.ok() && !absl::IsAborted(status)) {
                                 world_.wrong(absl::StrCat("report: ", status.ToString()));
                               }
                               busy_ = false;
                               ++life_;
                               lease();
                             });
}

void Worker::incident() {
  if (world_.healed()) {
    return;
  }
  if (world_.dice.percent(world_.options.suspensions)) {
    world_.note("the server stands still");
    world_.stall(world_.dice.between(1'000'000, 15'000'000));
  } else if (world_.dice.percent(40)) {
    const int64_t until_us = world_.loop.now_us() + world_.dice.between(1'000'000, 15'000'000);
    world_.note(absl::StrCat(id_, " stands still until ", until_us));
    caller_.pauseUntil(until_us);
    heart_.pauseUntil(until_us);
  } else {
    die();
  }
  world_.loop.after(world_.dice.between(1, 2 * world_.options.worker_incident_us), [this] { incident(); });
}

void Worker::die() {
  world_.note(absl::StrCat(id_, " dies"));
  caller_.hangUp();
  heart_.hangUp();
  if (busy_ && !attempt_.hangs && world_.dice.percent(world_.options.ghosts)) {
    world_.loop.after(world_.dice.between(0, 8'000'000), [this, request = reportOf(attempt_)] {
      world_.send(true, [this, request] { (void)fileReport(request); });
    });
  }
  busy_ = false;
  ++life_;
  ++pid_;
  if (world_.dice.percent(30)) {
    world_.send(true, [this, id = id_] {
      if (const absl::Status status = world_.scheduler().workerGone(id); !status.ok()) {
        world_.wrong(absl::StrCat("workerGone: ", status.ToString()));
      }
    });
  }
  world_.loop.after(world_.dice.between(10'000, 4'000'000), [this, life = life_] {
    if (life == life_) registerSelf();
  });
}

}  // namespace tessera::server::simulation
