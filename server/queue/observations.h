#pragma once

#include <string>
#include <vector>

#include "tessera/v1/failure.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::server {

/// Which of its rows an answer from the cache came from.
enum class Cache {
  kArtifact,  ///< of whole compilations
  kObject,    ///< of the units they are built of
};

/// What became of a look into the cache, and why.
enum class Lookup {
  kStored,    ///< hit: made earlier
  kShared,    ///< hit: made earlier, for another project
  kInFlight,  ///< hit: being made for somebody else, and shared
  kSkipped,   ///< miss: the request wants none of it
  kNew,       ///< miss: nothing was made under this key
  kDamaged,   ///< miss: it was, and its file is gone or has gone bad
};

/// What happened in a transaction that those who run the service want counted.
struct Observations {
  struct Start {
    v1::TaskKind kind;
    double waited_s;  ///< since it was ready, to its first lease
  };
  /// An attempt that ended: REASON_UNSPECIFIED well, CANCELLED because nobody wanted it any more.
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
    double took_s;  ///< since it was made
  };
  struct Answer {
    Cache cache;
    Lookup lookup;
  };
  std::vector<Start> starts;
  std::vector<Attempt> attempts;
  std::vector<Phase> phases;  ///< of work that succeeded
  std::vector<Answer> answers;
  std::vector<End> ends;
};

/// Told of them once they are durable, on the thread that waited for the commit: it must not wait.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void happened(const Observations& observations) = 0;
};

}  // namespace tessera::server
