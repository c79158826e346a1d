#include "compiler/ir/register_pressure.h"

#include <algorithm>

namespace tessera::compiler {

void LiveValues::define(Value value) {
  if (!first_.contains(value)) first_[value] = last_[value] = time_;
}

void LiveValues::use(Value value) {
  define(value);
  last_[value] = time_;
}

int LiveValues::maxLive() const {
  std::map<int, int> change;
  for (const auto& [value, begin] : first_) {
    ++change[begin];
    --change[last_.at(value) + 1];
  }
  int alive = 0, most = 0;
  for (const auto& [time, by] : change) most = std::max(most, alive += by);
  return most;
}

}  // namespace tessera::compiler
