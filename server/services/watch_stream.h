#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/queue/notifier.h"
#include "server/services/calls.h"

namespace tessera::server {

/// A stream of a job's events or versions: from the store, in order, until the job has ended. Holds one batch in
/// memory.
template <typename Response>
class WatchStream : public grpc::ServerWriteReactor<Response>, public WakeableCall {
 public:
  void OnWriteDone(bool ok) override {
    if (!ok) {
      gone_ = true;
    }
    writing_ = false;
    wake();
  }
  void OnCancel() override {
    gone_ = true;
    wake();
  }
  void OnDone() override {
    notifier_.forget(subscription_);
    release();
  }

 protected:
  struct Batch {
    std::vector<Response> messages;
    bool job_ended = false;  ///< the job had ended when the batch was read
    bool full = false;       ///< the batch is full, so there may be more messages
    bool isLast() const { return job_ended && !full; }
  };

  WatchStream(Caller caller, Notifier& notifier, Executor& executor)
      : WakeableCall(executor), caller_(std::move(caller)), notifier_(notifier) {}

  /// From here on the call owns itself.
  void begin(std::shared_ptr<Ticket> ticket, const std::string& job_id) {
    keepAlive(std::move(ticket));
    // Subscribe before the first read, so that no change is missed.
    subscription_ = notifier_.onJob(job_id, [weak = this->weak_from_this()] {
      if (auto self = std::static_pointer_cast<WatchStream>(weak.lock())) {
        self->changed_ = true;
        self->wake();
      }
    });
    this->StartSendInitialMetadata();  // tells the client that the stream is open, even if no message follows for long
    wake();
  }

  const Caller& caller() const { return caller_; }

 private:
  /// Returns the messages after the previous batch, or none if there are none yet. An error ends the stream.
  virtual absl::StatusOr<Batch> fetch() = 0;

  void advance() override {
    if (finished_ || writing_) {
      return;
    }
    if (gone_) {
      return finish(absl::CancelledError("the client left"));
    }
    if (next_ == batch_.messages.size() && !batch_.isLast() && (changed_.exchange(false) || batch_.full)) {
      absl::StatusOr<Batch> fetched = fetch();
      if (!fetched.ok()) {
        return finish(fetched.status());
      }
      batch_ = *std::move(fetched);
      next_ = 0;
    }
    if (next_ == batch_.messages.size()) {
      if (batch_.isLast()) {
        finish(absl::OkStatus());
      }
      return;  // all messages so far are written
    }
    const Response* const message = &batch_.messages[next_++];
    const bool more_at_once = next_ < batch_.messages.size() || batch_.isLast();
    writing_ = true;
    // Consecutive messages are sent together, as is the status. The status is not part of the last write: gRPC's in-
    // process transport sometimes never reports the end of a message that is sent with it.
    this->StartWrite(message, more_at_once ? grpc::WriteOptions().set_buffer_hint() : grpc::WriteOptions());
  }

  void finish(const absl::Status& status) {
    finished_ = true;
    this->Finish(finalStatus(status));
  }

  const Caller caller_;
  Notifier& notifier_;
  Notifier::Token subscription_ = 0;
  Batch batch_;      ///< messages must outlive their writes: replaced only after the last one is written
  size_t next_ = 0;  ///< first message of the batch that is not written yet
  bool finished_ = false;
  std::atomic<bool> changed_ = true;  ///< since the last read
  std::atomic<bool> writing_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace tessera::server
