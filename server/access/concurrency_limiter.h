#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace tessera::server {

/// Limits concurrent work, in total and per name. Thread-safe. Tickets may outlive it.
class ConcurrencyLimiter {
 public:
  ConcurrencyLimiter(int most, int most_of_one)
      : state_(std::make_shared<State>()), most_(most), most_of_one_(most_of_one) {}

  /// Takes a place until the ticket is destroyed; nullptr if there is none left.
  std::shared_ptr<void> take(const std::string& name);

 private:
  struct State {
    std::mutex mutex;
    int all = 0;
    std::map<std::string, int> of_one;
  };
  const std::shared_ptr<State> state_;
  const int most_, most_of_one_;
};

}  // namespace tessera::server
