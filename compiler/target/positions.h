#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/target/target.h"

namespace tessera::compiler {

/// A description and where in its text each field stands.
struct PositionedTarget {
  struct Position {
    int line = 0, column = 0;  ///< from 1
  };
  v1::Target target;
  std::map<std::string, Position> fields;  ///< by path: "memory[1].capacity_bytes"

  /// Where the field of that path stands, or the message it is missing from; 1:1 for what the text has nothing of.
  Position at(std::string path) const;
};

/// parseTargetText, positions kept.
absl::StatusOr<PositionedTarget> parseTargetWithPositions(const std::string& text);

}  // namespace tessera::compiler
