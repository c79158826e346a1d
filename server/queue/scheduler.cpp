#include "server/queue/scheduler.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

namespace tessera::server {

Scheduler::Scheduler(storage::Store& store, storage::BlobStore& blobs, Clock& clock, IdSource& ids,
                     const Workflow& workflow, Rules rules)
    : store_(store),
      blobs_(blobs),
      clock_(clock),
      ids_(ids),
      workflow_(workflow),
      rules_(std::move(rules)),
      listening_(store.listen([this](const storage::Notice& notice) {
        if (notice.missed) {
          notifier_.publishAll();
        }
        notifier_.publishTasks(notice.tasks_ready);
        notifier_.publishJobs(notice.changed_jobs);
      })) {}

absl::Status Scheduler::transact(const std::function<absl::Status(QueueTransaction&)>& body) {
  Effects effects;
  const absl::Status status =
      store_.transact([&](storage::Transaction& tx) { return runInTransaction(tx, body, effects); });
  if (status.ok()) {
    becameDurable(effects);
  }
  return status;
}

void Scheduler::transactAsync(std::function<absl::Status(QueueTransaction&)> body, Executor& executor,
                              std::function<void(const absl::Status&)> done) {
  const auto effects = std::make_shared<Effects>();
  executor.expect();
  store_.transactAsync([this, effects, body = std::move(body)](
                           storage::Transaction& tx) { return runInTransaction(tx, body, *effects); },
                       [this, effects, &executor, done = std::move(done)](const absl::Status& status) {
                         executor.postExpected([this, effects, done, status] {
                           if (status.ok()) {
                             becameDurable(*effects);
                           }
                           done(status);
                         });
                       });
}

absl::Status Scheduler::runInTransaction(storage::Transaction& tx,
                                         const std::function<absl::Status(QueueTransaction&)>& body, Effects& effects) {
  effects = Effects();  // the store may run a body again
  QueueTransaction queue{tx, blobs_, rules_, ids_, clock_.nowMicros(), effects, workflow_};
  absl::Status done = body(queue);
  tx.notify({effects.tasks_ready, std::move(effects.changed_jobs)});
  return done;
}

/// Publishes the effects of a committed transaction. Notices to waiting calls were published by the store.
void Scheduler::becameDurable(const Effects& effects) {
  if (observer_ != nullptr) {
    observer_->happened(effects.seen);
  }
  blobs_.discard(effects.dropped_blobs);
}

v1::Digest Scheduler::storeReproducer(const v1::TaskSpec& spec) {
  auto digest = blobs_.put(spec.SerializeAsString());
  if (!digest.ok()) {
    // The failure of the task is stored even so, without a reproducer.
    spdlog::error("cannot keep a reproducer: {}", std::string(digest.status().message()));
    return {};
  }
  return *std::move(digest);
}

}  // namespace tessera::server
