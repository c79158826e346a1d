#include "clients/cpp/waiting.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/support/printable.h"

namespace tessera::client {
namespace {

/// Limit of a worker's own description of its problem, which shares a line with other text.
constexpr size_t kMaxTrouble = 200;

}  // namespace

std::string describeWait(const v1::ListWorkersResponse& workers) {
  int idle = 0;
  int busy = 0;
  int draining = 0;
  int troubled = 0;
  std::string trouble;
  for (const v1::Worker& worker : workers.workers()) {
    if (worker.state() == v1::Worker::LOST) continue;
    if (worker.state() == v1::Worker::BUSY) {
      ++busy;
    } else if (worker.state() == v1::Worker::DRAINING) {
      ++draining;
    } else if (worker.state() == v1::Worker::SUSPENDED || !worker.trouble().empty()) {
      ++troubled;
      if (trouble.empty()) trouble = printable(worker.trouble().substr(0, kMaxTrouble));
    } else {
      ++idle;
    }
  }
  std::vector<std::string> told;
  if (busy > 0) told.push_back(absl::StrCat(busy, " busy"));
  if (draining > 0) told.push_back(absl::StrCat(draining, " draining"));
  if (troubled > 0) {
    told.push_back(absl::StrCat(troubled, " in trouble or suspended", trouble.empty() ? "" : " (", trouble,
                                trouble.empty() ? "" : ")"));
  }
  if (idle > 0) {
    told.push_back(absl::StrCat(idle,
                                " idle, which do not accept it (`tessera workers`) or must wait (the quota of running "
                                "jobs, `tessera admin quotas`)"));
    return absl::StrCat("a worker that accepts it: ", absl::StrJoin(told, ", "));
  }
  if (told.empty()) return "a worker: none is connected; start tessera-worker, or tesserad with --workers";
  return absl::StrCat("a worker with a free slot: ", absl::StrJoin(told, ", "));
}

}  // namespace tessera::client
