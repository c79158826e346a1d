#pragma once

#include <map>
#include <string>

#include "server/simulation/world.h"

namespace tessera::server::simulation {

/// One worker: registers, leases, beats, uploads, reports; dies, stands still, runs attempts that crash or never end.
class Worker {
 public:
  Worker(World& world, int number);

  void start();
  /// What it suffers from ends; a process that is gone is there again.
  void heal();

 private:
  struct Attempt {
    v1::Lease lease;
    v1::TaskResult result;
    std::map<std::string, std::string> files;  ///< by digest: what it read and made
    bool hangs = false;
    bool ended = false;  ///< its result is on the way
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
  /// On the server: files the report, and looks whether that was right.
  absl::Status fileReport(const v1::ReportTaskRequest& request);
  v1::ReportTaskRequest reportOf(const Attempt& attempt) const;

  World& world_;
  Caller caller_;
  Caller heart_;  ///< heartbeats go beside other calls
  const std::string id_;
  const bool sick_;
  const bool untold_;
  int64_t pid_ = 1;
  int64_t life_ = 0;  ///< what was begun before the process died is void
  Attempt attempt_;
  bool busy_ = false;
};

}  // namespace tessera::server::simulation
