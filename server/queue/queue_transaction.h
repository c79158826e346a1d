#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/clock.h"
#include "server/queue/observations.h"
#include "server/queue/rules.h"
#include "server/queue/workflow.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

/// Consequences of a transaction once it is durable.
struct Effects {
  std::set<std::string> changed_jobs;
  int tasks_ready = 0;                    ///< number of waiting workers to wake
  std::vector<v1::Digest> dropped_blobs;  ///< whose rows are erased, and whose bytes are to be
  Observations seen;
};

/// One transaction of the scheduler. The functions of queue/ and workflows/ take it and change the state through it.
struct QueueTransaction {
  storage::Transaction& tx;
  storage::BlobStore& blobs;
  const Rules& rules;
  IdSource& ids;
  int64_t now_us;
  Effects& effects;
  const Workflow& workflow;
};

inline double seconds(int64_t micros) { return static_cast<double>(micros) / 1e6; }
inline double millis(int64_t micros) { return static_cast<double>(micros) / 1000.0; }

}  // namespace tessera::server
