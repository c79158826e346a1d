#pragma once

#include <map>
#include <string>

#include "server/simulation/world.h"

namespace tessera::server::simulation {

/// A worker: registers, leases, sends heartbeats, uploads, reports; dies, is suspended, runs attempts that crash or
/// never end.
class Worker {
 public:
  Worker(World& world, int number);

  void start();
  /// Ends its faults; a dead process starts again.
  void heal();

 private:
  struct Attempt {
    v1::Lease lease;
    v1::TaskResult result;
    std::map<std::string, std::string> files;  ///< by digest: inputs and outputs
    bool hangs = false;
    bool ended = false;  ///< the result is being sent
    int64_t begun_us = 0;
  };

  void registerSelf();
  void lease();
  void run(const v1::Lease& lease);
  void beat();
  void finish();
  void uploadOutputs();
  void report();
  void incident();
  void die();
  absl::Status answerUpload(const std::string& bytes);
  /// Runs on the server: stores the report and checks the answer.
  absl::Status fileReport(const v1::ReportTaskRequest& request);
  v1::ReportTaskRequest reportOf(const Attempt& attempt) const;

  World& world_;
  Caller caller_;
  Caller heart_;  ///< heartbeats are concurrent with other calls
  const std::string id_;
  const bool sick_;
  const bool untold_;
  int64_t pid_ = 1;
  int64_t life_ = 0;  ///< of the process: events of an earlier life are ignored
  Attempt attempt_;
  bool busy_ = false;
};

}  // namespace tessera::server::simulation
