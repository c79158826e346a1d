#pragma once

#include <postgresql/libpq-fe.h>

#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "storage/notices.h"
#include "storage/store.h"

namespace tessera::storage {

/// Notices between the servers on one database, by LISTEN and NOTIFY on a connection of its own. PostgreSQL takes a
/// database-wide lock to commit a NOTIFY, so it is no part of the transactions that are announced: a thread sends what
/// was committed since its last NOTIFY as one. Notices of other servers are lost while the connection is.
class NoticeChannel {
 public:
  /// Notices of other servers go to `notices`. Connects again whenever the connection is lost.
  NoticeChannel(std::string uri, Notices notices);
  ~NoticeChannel();
  NoticeChannel(const NoticeChannel&) = delete;
  NoticeChannel& operator=(const NoticeChannel&) = delete;

  /// Returns at once. Thread-safe.
  void publish(const Notice& notice);

  /// A notice as the texts of NOTIFY, each at most 8,000 bytes: "TASKS JOB JOB ...".
  static std::vector<std::string> textsOf(const Notice& notice);
  static Notice noticeOf(std::string_view text);

 private:
  void run();
  /// False: the connection is lost.
  bool send();
  bool receive();
  void wake() const;

  const std::string uri_;
  const Notices notices_;
  PGconn* connection_ = nullptr;
  int wake_ = -1;  ///< event file descriptor: there is something to send, or the channel ends
  std::mutex mutex_;
  Notice pending_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera::storage
