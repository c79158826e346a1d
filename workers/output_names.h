#pragma once

#include <cstdint>
#include <string>

namespace tessera::worker {

/// File name of output `index` of an execute task if it is too large to be inline. The task writes the file, and the
/// worker sets TensorValue.blob.
inline std::string outputFileName(int index) { return "output-" + std::to_string(index); }

/// Files up to the first size are sent with the report, up to the second size in total. A task may inline them in its
/// result instead of writing them (OutputFile.data).
inline constexpr int64_t kMaxEnclosedBytes = 64 << 10, kEnclosedBytesOfResult = 1 << 20;

/// File in out/ with step results that a task adds to the cache (shared_step_cache.h), and its maximum size. It is not
/// an output of the task.
inline constexpr char kStepCacheFile[] = "step-cache";
inline constexpr int64_t kMaxStepBytes = 16 << 20;

}  // namespace tessera::worker
