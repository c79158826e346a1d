#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {

/// The fields of a Failure besides its reason and message.
struct ErrorDetails {
  std::string attribute = {};
  std::string found = {};
  std::string accepted = {};
  std::string remedy = {};
  std::string node = {};
  std::string op_type = {};
};

/// Returns a Failure about the model as a status. All text is made printable (see printable()).
absl::Status fault(v1::Failure::Reason reason, std::string_view message, const ErrorDetails& details = {});

/// Returns text of the model as messages may contain it: at most 200 bytes, valid UTF-8, no control characters.
std::string printable(std::string_view text);

}  // namespace tessera::compiler
