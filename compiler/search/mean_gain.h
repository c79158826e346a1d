#pragma once

namespace tessera::compiler::search {

/// What the trials of a direction gained on average.
struct MeanGain {
  double mean = 0;
  int count = 0;

  void add(double gain) { mean += (gain - mean) / ++count; }
};

}  // namespace tessera::compiler::search
