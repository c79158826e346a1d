#include "storage/space_accounting.h"

#include <algorithm>

namespace tessera::storage {
namespace {

std::string projectOfName(const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? std::string() : name.substr(dot + 1);
}

/// Adds to a count; entries with count 0 are removed.
void add(std::map<std::string, int64_t>& counts, const std::string& key, int64_t bytes) {
  counts[key] += bytes;
  if (counts[key] == 0) counts.erase(key);
}

}  // namespace

bool SpaceAccounting::reserve(const std::string& name, int64_t bytes, int64_t most) {
  const std::lock_guard lock(mutex_);
  // The sum is negative only if blobs were not counted, and then there is no quota.
  const int64_t others = std::max<int64_t>(0, blobs_ + unfinished_ - lockedOf(name));
  if (others > most || bytes > most - others) return false;
  lockedLeave(name, bytes);
  return true;
}

void SpaceAccounting::leave(const std::string& name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  lockedLeave(name, bytes);
}

void SpaceAccounting::publish(const std::string& name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  lockedLeave(name, 0);
  blobs_ += bytes;
}

void SpaceAccounting::addBlobs(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  blobs_ += bytes;
}

int64_t SpaceAccounting::taken() const {
  const std::lock_guard lock(mutex_);
  return blobs_ + unfinished_;
}

int64_t SpaceAccounting::uploadBytesOf(const std::string& project, const std::string& but_name) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_project_.find(project);
  const int64_t all = found == by_project_.end() ? 0 : found->second;
  return projectOfName(but_name) == project ? all - lockedOf(but_name) : all;
}

void SpaceAccounting::lockedLeave(const std::string& name, int64_t bytes) {
  const int64_t more = bytes - lockedOf(name);
  unfinished_ += more;
  add(by_name_, name, more);
  add(by_project_, projectOfName(name), more);
}

int64_t SpaceAccounting::lockedOf(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? 0 : found->second;
}

}  // namespace tessera::storage
