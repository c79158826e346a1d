#pragma once

namespace tessera::compiler::search {

/// The average gain of the trials of a direction.
struct MeanGain {
  double mean = 0;
  int count = 0;

  void add(double gain) { mean += (gain - mean) / ++count; }
};

}  // namespace tessera::compiler::search
