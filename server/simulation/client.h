#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/simulation/world.h"

namespace tessera::server::simulation {

/// One client: uploads models, asks for jobs one after the other, waits for their ends, changes its mind now and then.
class Client {
 public:
  Client(World& world, int number);

  void start();
  bool done() const { return done_; }

  /// What it was promised: checked against the store in the end, and with every answer.
  struct Promise {
    v1::Job job;              ///< as it was last answered
    std::string model;        ///< the bytes
    bool cancelled = false;   ///< it asked for that
    bool impossible = false;  ///< with a wrong size: it may fail
    bool hurried = false;     ///< with limits that may end it
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

/// The model and what compiling it must give.
std::string modelBytes(int64_t model);
std::string artifactBytes(const World& world, const std::string& model);

}  // namespace tessera::server::simulation
