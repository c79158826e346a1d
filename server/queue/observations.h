#pragma once

#include <string>
#include <vector>

#include "tessera/v1/failure.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::server {

/// The cache that was asked.
enum class Cache {
  kArtifact,  ///< artifacts of whole compilations
  kObject,    ///< objects of single units
};

/// Result of a cache lookup, and its reason.
enum class Lookup {
  kStored,    ///< hit: built earlier
  kShared,    ///< hit: built earlier, for another project
  kInFlight,  ///< hit: being built for another job, and shared with it
  kSkipped,   ///< miss: the request skips the cache
  kNew,       ///< miss: no entry under this key
  kDamaged,   ///< miss: there is an entry, but its file is missing or damaged
};

/// Events of one transaction that metrics and the log report.
struct Observations {
  struct Start {
    v1::TaskKind kind;
    double waited_s;  ///< from ready to the first lease
  };
  /// The end of an attempt. REASON_UNSPECIFIED: it succeeded. CANCELLED: no job needs it any more.
  struct Attempt {
    v1::TaskKind kind;
    v1::Failure::Reason reason;
    double took_s;
  };
  struct Phase {
    std::string phase;
    double wall_s;
  };
  struct End {
    std::string job_id, request_id, client;
    std::string kind;  ///< "compile", "execute", ...
    v1::Job::State state;
    v1::Failure::Reason reason;
    bool cached;
    double took_s;  ///< since the job was created
  };
  struct Answer {
    Cache cache;
    Lookup lookup;
  };
  std::vector<Start> starts;
  std::vector<Attempt> attempts;
  std::vector<Phase> phases;  ///< of actions that succeeded
  std::vector<Answer> answers;
  std::vector<End> ends;
};

/// Receives observations after their transaction is durable, on the thread that waited for the commit. Must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void happened(const Observations& observations) = 0;
};

}  // namespace tessera::server
