#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/v1/task.pb.h"

namespace tessera::worker {

/// Reads length-delimited TaskProgress messages from the chunks of a pipe. The writer is not trusted: a
/// malformed or oversized message ends the stream, silently, since progress is only for display.
class ProgressDecoder {
 public:
  /// The newest message that `bytes` completes.
  std::optional<v1::Progress> feed(std::string_view bytes);

 private:
  std::string buffer_;
  bool broken_ = false;
};

/// One message in the stream's form.
std::string encodeProgress(const v1::Progress& progress);

}  // namespace tessera::worker
