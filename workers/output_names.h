#pragma once

#include <string>

namespace tessera::worker {

/// Name of the file that holds output `index` of an execute task when it is too large to go inline: the
/// agreement between the task, which writes it, and the worker, which fills in TensorValue.blob.
inline std::string outputFileName(int index) { return "output-" + std::to_string(index); }

}  // namespace tessera::worker
