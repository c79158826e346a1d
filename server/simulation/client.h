#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/simulation/world.h"

namespace tessera::server::simulation {

/// A client: uploads models, creates jobs one after the other, waits for their ends, and sometimes cancels one.
class Client {
 public:
  Client(World& world, int number);

  void start();
  bool done() const { return done_; }

  /// A job as the server has acknowledged it; checked against each later answer, and against the store at the end.
  struct Promise {
    v1::Job job;              ///< as last answered
    std::string model;        ///< the bytes
    bool cancelled = false;   ///< the client requested it
    bool impossible = false;  ///< the request has a wrong size, so the job may fail
    bool hurried = false;     ///< limits of the request may end it
  };
  const std::map<std::string, Promise>& promises() const { return promises_; }

 private:
  void next();
  void upload();
  void create();
  void watch();
  void learn(const v1::Job& job);

  World& world_;
  Caller caller_;
  const int number_;
  int asked_ = 0;
  bool done_ = false;
  v1::CreateJobRequest request_;
  Promise wanted_;
  std::string job_id_;
  std::map<std::string, Promise> promises_;
};

/// A model, and the expected result of compiling it.
std::string modelBytes(int64_t model);
std::string artifactBytes(const World& world, const std::string& model);

}  // namespace tessera::server::simulation
