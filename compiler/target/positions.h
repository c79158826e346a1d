#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/target/target.h"

namespace tessera::compiler {

/// A description, and the position of each field in its text.
struct PositionedTarget {
  struct Position {
    int line = 0, column = 0;  ///< from 1
  };
  v1::Target target;
  std::map<std::string, Position> fields;  ///< by path: "memory[1].capacity_bytes"

  /// The position of the field of that path, or of the message that lacks it; 1:1 if the text has neither.
  Position at(std::string path) const;
};

/// parseTargetText with positions.
absl::StatusOr<PositionedTarget> parseTargetWithPositions(const std::string& text);

}  // namespace tessera::compiler
