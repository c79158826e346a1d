#include "storage/postgres/notice_channel.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "storage/postgres/connection.h"

namespace tessera::storage {
namespace {

constexpr size_t kMaxText = 7900;  // NOTIFY accepts less than 8,000 bytes
constexpr int kReconnectMillis = 500;
constexpr std::chrono::seconds kAnswer(10);  // longest wait for the database

}  // namespace

NoticeChannel::NoticeChannel(std::string uri, Notices notices)
    : uri_(std::move(uri)),
      notices_(std::move(notices)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

NoticeChannel::~NoticeChannel() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
  PQfinish(connection_);
  close(wake_);
}

void NoticeChannel::wake() const {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

void NoticeChannel::publish(const Notice& notice) {
  {
    const std::lock_guard lock(mutex_);
    pending_.tasks_ready += notice.tasks_ready;
    pending_.changed_jobs.insert(notice.changed_jobs.begin(), notice.changed_jobs.end());
  }
  wake();
}

std::vector<std::string> NoticeChannel::textsOf(const Notice& notice) {
  std::vector<std::string> texts = {absl::StrCat(notice.tasks_ready)};
  for (const std::string& job : notice.changed_jobs) {
    if (texts.back().size() + job.size() + 1 > kMaxText) texts.emplace_back("0");
    absl::StrAppend(&texts.back(), " ", job);
  }
  return texts;
}

Notice NoticeChannel::noticeOf(std::string_view text) {
  Notice notice;
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ' ', absl::SkipEmpty());
  if (words.empty() || !absl::SimpleAtoi(words[0], &notice.tasks_ready)) return {};
  notice.changed_jobs.insert(words.begin() + 1, words.end());
  return notice;
}

void NoticeChannel::run() {
  bool told = false;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    if (connection_ == nullptr || PQstatus(connection_) == CONNECTION_BAD) {
      PQfinish(connection_);
      connection_ = connectPostgres(uri_);
      PGresult* const listening = executeWithin(connection_, "LISTEN tessera", kAnswer);
      const bool ok = PQresultStatus(listening) == PGRES_COMMAND_OK;
      PQclear(listening);
      if (!ok) {
        if (!std::exchange(told, true)) {
          spdlog::warn("no notices of other servers: {}", PQerrorMessage(connection_));
        }
        PQfinish(std::exchange(connection_, nullptr));
        pollfd wait = {wake_, POLLIN, 0};
        poll(&wait, 1, kReconnectMillis);
        continue;
      }
      told = false;
      notices_.post({.missed = true});
    }
    std::array<pollfd, 2> wait = {{{wake_, POLLIN, 0}, {PQsocket(connection_), POLLIN, 0}}};
    poll(wait.data(), wait.size(), -1);
    uint64_t count = 0;
    (void)!read(wake_, &count, sizeof count);
    if (!receive() || !send()) {
      spdlog::debug("the connection for notices is lost; connecting again");
      PQfinish(std::exchange(connection_, nullptr));
    }
  }
}

bool NoticeChannel::receive() {
  if (PQconsumeInput(connection_) == 0) return false;
  while (PGnotify* const notification = PQnotifies(connection_)) {
    // This server's listeners were notified by its own transactions.
    if (notification->be_pid != PQbackendPID(connection_)) notices_.post(noticeOf(notification->extra));
    PQfreemem(notification);
  }
  return PQstatus(connection_) == CONNECTION_OK;
}

bool NoticeChannel::send() {
  Notice notice;
  {
    const std::lock_guard lock(mutex_);
    std::swap(notice, pending_);
  }
  if (notice.tasks_ready == 0 && notice.changed_jobs.empty()) return true;
  for (const std::string& text : textsOf(notice)) {
    PGresult* const result = executeWithin(connection_, "SELECT pg_notify('tessera', $1)", text.c_str(), kAnswer);
    const bool ok = PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    if (!ok) {
      publish(notice);  // again, with the next connection
      return false;
    }
  }
  return receive();
}

}  // namespace tessera::storage
