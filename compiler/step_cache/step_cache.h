#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/messages/deterministic_bytes.h"

namespace tessera::compiler {

/// Caches results of compiler steps (schedules and objects of workloads, linked code) by the hash of their inputs,
/// across processes of the same build. A step is a pure function of its key's inputs, so a cached result equals, byte
/// for byte, the result of running the step. Models that differ in their weights only share all results. Thread-safe.
class StepCache {
 public:
  virtual ~StepCache() = default;
  /// Returns the complete, verified result, or nothing.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  virtual void keep(const std::string& key, std::string result) = 0;
};

/// SHA-256 over the step's name and all of its inputs.
std::string stepKey(std::string_view step, std::initializer_list<std::string_view> inputs);

/// Returns the cached message, or runs `make` and caches its result. Sets `known`, if given, to whether the message was
/// cached. `cache` may be null. Failures are not cached.
template <typename Message, typename Make>
absl::StatusOr<Message> onceMade(StepCache* cache, const std::string& key, const Make& make, bool* known = nullptr) {
  Message message;
  if (cache != nullptr) {
    const std::optional<std::string> found = cache->find(key);
    const bool usable = found && message.ParseFromString(*found);
    if (known != nullptr) *known = usable;
    if (usable) return message;
  }
  absl::StatusOr<Message> made = make();
  if (made.ok() && cache != nullptr) cache->keep(key, deterministicBytes(*made));
  return made;
}

}  // namespace tessera::compiler
