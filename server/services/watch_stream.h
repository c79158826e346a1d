#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/queue/notifier.h"
#include "server/services/calls.h"

namespace tessera::server {

/// A stream of what a job has more and more of: from the store, in order, until the job has ended. Memory holds one
/// batch.
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
    bool job_ended = false;  ///< as of this look: what is not in the messages will never be, unless ...
    bool cut = false;        ///< ... there are more than were read at once
    bool isLast() const { return job_ended && !cut; }
  };

  WatchStream(Caller caller, Notifier& notifier, Executor& executor)
      : WakeableCall(executor), caller_(std::move(caller)), notifier_(notifier) {}

  /// Owned by itself from here on.
  void begin(std::shared_ptr<Ticket> ticket, const std::string& job_id) {
    keepAlive(std::move(ticket));
    // Subscribed before the first look, so that no change falls in between.
    subscription_ = notifier_.onJob(job_id, [weak = this->weak_from_this()] {
      if (auto self = std::static_pointer_cast<WatchStream>(weak.lock())) {
        self->changed_ = true;
        self->wake();
      }
    });
    this->StartSendInitialMetadata();  // the client hears that somebody is there, though there be nothing for long
    wake();
  }

  const Caller& caller() const { return caller_; }

 private:
  /// What comes behind what it gave before, or no messages for now. An error ends the stream.
  virtual absl::StatusOr<Batch> fetch() = 0;

  void advance() override {
    if (finished_ || writing_) {
      return;
    }
    if (gone_) {
      return finish(absl::CancelledError("the client left"));
    }
    if (next_ == batch_.messages.size() && !batch_.isLast() && (changed_.exchange(false) || batch_.cut)) {
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
      return;  // what there was is written, and nothing came since
    }
    const Response* const message = &batch_.messages[next_++];
    const bool more_at_once = next_ < batch_.messages.size() || batch_.isLast();
    writing_ = true;
    // What follows each other at once travels together, the status too. It is no part of the last write: of a message
    // that was sent with it, gRPC's transport within a process sometimes never says that it is done.
    this->StartWrite(message, more_at_once ? grpc::WriteOptions().set_buffer_hint() : grpc::WriteOptions());
  }

  void finish(const absl::Status& status) {
    finished_ = true;
    this->Finish(finalStatus(status));
  }

  const Caller caller_;
  Notifier& notifier_;
  Notifier::Token subscription_ = 0;
  Batch batch_;      ///< a message must outlive its write: replaced when the last one is written
  size_t next_ = 0;  ///< first message of the batch that is not yet written
  bool finished_ = false;
  std::atomic<bool> changed_ = true;  ///< since the last look
  std::atomic<bool> writing_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace tessera::server
