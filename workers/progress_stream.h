#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/v1/task.pb.h"

namespace tessera::worker {

/// Decodes length-delimited TaskProgress messages from chunks of a pipe. The writer is not trusted: a malformed or
/// oversized message silently ends the stream, since progress is only for display.
class ProgressDecoder {
 public:
  /// Returns the newest message that `bytes` completes.
  std::optional<v1::Progress> feed(std::string_view bytes);

 private:
  std::string buffer_;
  bool broken_ = false;
};

/// Encodes one message of the stream.
std::string encodeProgress(const v1::Progress& progress);

}  // namespace tessera::worker
