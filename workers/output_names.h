#pragma once

#include <cstdint>
#include <string>

namespace tessera::worker {

/// Name of the file that holds output `index` of an execute task when it is too large to go inline: the
/// agreement between the task, which writes it, and the worker, which fills in TensorValue.blob.
inline std::string outputFileName(int index) { return "output-" + std::to_string(index); }

/// Files up to this size come with the report, as long as they are no more than that together. A task may enclose them
/// in its result instead of writing them (OutputFile.data).
inline constexpr int64_t kEnclosedBytes = 64 << 10, kEnclosedBytesOfResult = 1 << 20;

/// File in out/ by which a task hands in results of steps (known_steps.h), so many bytes at most. It is none of its
/// results.
inline constexpr char kStepsFile[] = "known-steps";
inline constexpr int64_t kMostStepBytes = 16 << 20;

}  // namespace tessera::worker
