#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/target.pb.h"

/// Variants of a described chip: the value of `tessera dataflow --sweep`.
namespace tessera::client {

/// A figure of a chip with the values that it takes, "L1.capacity" or "core.count".
struct SweptParameter {
  std::string name;
  std::vector<double> values;  ///< in the unit of the description
};

/// Parses "L1.capacity=1M..16M, core.count=1,2,4". A..B doubles from A to B, A..B+STEP adds STEP; K, M and G are powers
/// of 1024. Fails with INVALID_ARGUMENT, naming the parameter and what is accepted.
absl::StatusOr<std::vector<SweptParameter>> parseSweep(const std::string& text, const v1::Target& chip);

/// All combinations of values, the last parameter fastest.
std::vector<std::vector<double>> sweepPoints(const std::vector<SweptParameter>& parameters);

/// The chip with these values. A level that all cores share is still shared by all of them if their number changes, and
/// keeps its total bandwidth. Fails with INVALID_ARGUMENT, naming the values, if no such chip is possible.
absl::StatusOr<v1::Target> chipAt(const v1::Target& chip, const std::vector<SweptParameter>& parameters,
                                  const std::vector<double>& values);

/// "4M" for 4194304 if the parameter is a capacity, otherwise the number.
std::string sweptValueText(const SweptParameter& parameter, double value);

}  // namespace tessera::client
