#include "workers/task/task_steps.h"

#include <utility>

#include "workers/output_names.h"

namespace tessera::worker {

std::optional<std::string> TaskSteps::find(const std::string& key) {
  if (task_.stepCache() == nullptr) return std::nullopt;
  std::optional<SharedStepCacheReader::Found> found = task_.stepCache()->find(key);
  if (!found) return std::nullopt;
  // An entry in the older half of the cache is handed in again, or it would be lost when that half is cleared.
  if (found->older) keep(key, found->result);
  return std::move(found->result);
}

void TaskSteps::keep(const std::string& key, std::string result) {
  const std::string encoded = encodeStep(key, result);
  const std::lock_guard lock(mutex_);
  // A step that is not kept is only computed again by a later task.
  if (made_.size() + encoded.size() <= static_cast<size_t>(kMaxStepBytes)) made_ += encoded;
}

absl::Status TaskSteps::handIn() const {
  if (made_.empty()) return absl::OkStatus();
  auto file = task_.createOutput(kStepCacheFile);
  return file.ok() ? writeAll(file->get(), made_, task_.output(kStepCacheFile)) : file.status();
}

}  // namespace tessera::worker
