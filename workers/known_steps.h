#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "workers/file_descriptor.h"

/// Results of steps of the compiler (compiler/step_cache/step_cache.h) that attempts on this worker share, in a file in
/// memory that each task process of a project is given and maps: to look one up takes no call of anybody. The worker
/// alone writes, the file is sealed against everybody else. A result that was changed or only half written when it is
/// read, or that lies under a name that is not its own, is none.
namespace tessera::worker {

/// What the worker keeps of one project. It is two halves: results go into the younger one; when that is full the older
/// one is emptied and becomes the younger. What a task uses of the older half it hands in again, so what is used stays.
/// Thread-safe.
class KnownSteps {
 public:
  /// `bytes` in all, taken from memory as they are used.
  static absl::StatusOr<std::unique_ptr<KnownSteps>> create(size_t bytes);
  ~KnownSteps();
  KnownSteps(const KnownSteps&) = delete;
  KnownSteps& operator=(const KnownSteps&) = delete;

  /// To be given to task processes, which can read it and nothing else.
  int descriptor() const { return file_.get(); }

  /// Of `key`, a SHA-256 as 64 digits. One that is there in the younger half stays as it is. What is larger than an
  /// eighth of a half is left out.
  void add(std::string_view key, std::string_view result);

 private:
  KnownSteps() = default;

  FileDescriptor file_;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  std::mutex mutex_;
};

/// The same within a task process.
class KnownStepsReader {
 public:
  /// Maps what the descriptor holds; nothing where it is not open or holds something else.
  static std::unique_ptr<KnownStepsReader> open(int descriptor);
  ~KnownStepsReader();
  KnownStepsReader(const KnownStepsReader&) = delete;
  KnownStepsReader& operator=(const KnownStepsReader&) = delete;

  struct Found {
    std::string result;
    bool older = false;  ///< to be handed in again
  };
  std::optional<Found> find(std::string_view key) const;

 private:
  KnownStepsReader(const char* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  const char* const memory_;
  const size_t bytes_;
};

/// What a worker keeps of all projects: of those that asked last. Thread-safe.
class KnownStepsOfProjects {
 public:
  /// `bytes` in all; 0: nothing is kept.
  explicit KnownStepsOfProjects(size_t bytes) : bytes_(bytes) {}

  /// Null where nothing is kept: without a project, without room, or on a kernel without sealed files.
  std::shared_ptr<KnownSteps> of(const std::string& project);

 private:
  static constexpr size_t kMostProjects = 8;

  const size_t bytes_;
  std::mutex mutex_;
  int64_t asked_ = 0;
  struct Project {
    std::shared_ptr<KnownSteps> steps;
    int64_t asked = 0;
  };
  std::map<std::string, Project> projects_;
};

/// How a task hands in what it made: each result with its key, one after the other.
std::string encodeStep(std::string_view key, std::string_view result);
/// Adds all of those; what cannot be read ends it.
void addEncoded(KnownSteps& steps, std::string_view encoded);

}  // namespace tessera::worker
