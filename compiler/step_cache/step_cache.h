#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/messages/deterministic_bytes.h"

namespace tessera::compiler {

/// What steps of the compiler made of equal inputs before, in this process or in an earlier one of the same build:
/// schedules and objects of workloads, linked code. A step is a pure function of what its key is made of, so a result
/// that is found is, byte for byte, what the step would make. Models whose weights alone differ share all of theirs.
/// Thread-safe.
class StepCache {
 public:
  virtual ~StepCache() = default;
  /// Whole and unchanged, or nothing.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  virtual void keep(const std::string& key, std::string result) = 0;
};

/// SHA-256 over the step's name and all of its inputs.
std::string stepKey(std::string_view step, std::initializer_list<std::string_view> inputs);

/// The message that a step made before, or makes now. `known`, where given, is set to whether it was there; `cache` may
/// be null. Failures are not kept.
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
