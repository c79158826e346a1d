#include "storage/testing/faulty_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

namespace tessera::storage {
namespace {

/// Unit that a drive writes atomically.
constexpr int64_t kSectorBytes = 512;

/// A change of a file that is only in the page cache.
struct Change {
  bool truncates = false;
  int64_t offset = 0;  ///< offset of the data, or the new size
  std::string data;
};

void applyTo(const Change& change, std::string& bytes) {
  if (change.truncates) {
    bytes.resize(static_cast<size_t>(change.offset));
    return;
  }
  const size_t end = static_cast<size_t>(change.offset) + change.data.size();
  if (bytes.size() < end) bytes.resize(end);
  std::copy(change.data.begin(), change.data.end(), bytes.begin() + change.offset);
}

/// Applies a random subset of the sectors that a write touches.
void applyTorn(const Change& change, std::string& bytes, std::mt19937& random) {
  if (change.truncates) return applyTo(change, bytes);
  for (size_t at = 0; at < change.data.size();) {
    const int64_t offset = change.offset + static_cast<int64_t>(at);
    const size_t length = std::min(change.data.size() - at, static_cast<size_t>(kSectorBytes - offset % kSectorBytes));
    if (random() % 2 == 0) applyTo({false, offset, change.data.substr(at, length)}, bytes);
    at += length;
  }
}

}  // namespace

struct FaultyDisk::Node {
  bool is_folder = false;
  uint64_t identity = 0;
  std::string bytes;            ///< current content, as readers see it
  std::string durable_bytes;    ///< content after the last sync
  std::vector<Change> changes;  ///< changes since the last sync
  std::map<std::string, Handle> entries;
  std::map<std::string, Handle> durable_entries;
};

FaultyDisk::FaultyDisk() : root_(std::make_shared<Node>()) { root_->is_folder = true; }

void FaultyDisk::plan(const Plan& plan) {
  const std::lock_guard lock(mutex_);
  plan_ = plan;
  operations_ = 0;
  struck_ = false;
}

int64_t FaultyDisk::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

bool FaultyDisk::struck() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

bool FaultyDisk::powerLost() const {
  const std::lock_guard lock(mutex_);
  return power_lost_;
}

void FaultyDisk::cutPower() {
  const std::lock_guard lock(mutex_);
  power_lost_ = true;
}

void FaultyDisk::ignoreSyncs(bool ignore) {
  const std::lock_guard lock(mutex_);
  ignore_syncs_ = ignore;
}

int FaultyDisk::begin(bool grows, bool* half) {
  if (power_lost_) return EIO;
  ++operations_;
  if (plan_.fault == Fault::kNone || operations_ < plan_.operation ||
      operations_ >= plan_.operation + std::max<int64_t>(1, plan_.lasting)) {
    return 0;
  }
  switch (plan_.fault) {
    case Fault::kPowerLoss:
      struck_ = true;
      power_lost_ = true;
      return EIO;
    case Fault::kFull:
      if (!grows) return 0;
      struck_ = true;
      if (half != nullptr) *half = true;
      return ENOSPC;
    default:
      struck_ = true;
      return EIO;
  }
}

FaultyDisk::Handle FaultyDisk::find(const std::string& path) const {
  Handle node = root_;
  for (size_t at = 0; at < path.size() && node;) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) {
      const auto entry = node->entries.find(path.substr(at, end - at));
      node = entry == node->entries.end() ? nullptr : entry->second;
    }
    at = end + 1;
  }
  return node;
}

FaultyDisk::Handle FaultyDisk::folderOf(const std::string& path, std::string& name) const {
  const size_t slash = path.rfind('/');
  name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  Handle folder = slash == std::string::npos ? root_ : find(path.substr(0, slash));
  return folder && folder->is_folder ? folder : nullptr;
}

int FaultyDisk::open(const std::string& path, bool create, Handle& handle) {
  const std::lock_guard lock(mutex_);
  const Handle found = find(path);
  if (const int error = begin(create && !found, nullptr)) return error;
  if (found) {
    handle = found;
    return found->is_folder && create ? EISDIR : 0;
  }
  std::string name;
  const Handle folder = folderOf(path, name);
  if (!create || !folder) return ENOENT;
  handle = std::make_shared<Node>();
  handle->identity = next_identity_++;
  folder->entries[name] = handle;
  return 0;
}

int FaultyDisk::read(const Handle& handle, int64_t offset, char* data, size_t size, size_t& got) {
  const std::lock_guard lock(mutex_);
  got = 0;
  if (const int error = begin(false, nullptr)) return error;
  const auto length = static_cast<int64_t>(handle->bytes.size());
  if (offset < length) got = static_cast<size_t>(std::min<int64_t>(length - offset, static_cast<int64_t>(size)));
  std::memcpy(data, handle->bytes.data() + std::min(offset, length), got);
  return 0;
}

int FaultyDisk::write(const Handle& handle, int64_t offset, std::string_view data) {
  const std::lock_guard lock(mutex_);
  bool half = false;
  const int error = begin(true, &half);
  if (error != 0 && !half) return error;
  if (half) data = data.substr(0, data.size() / 2);
  handle->changes.push_back({false, offset, std::string(data)});
  applyTo(handle->changes.back(), handle->bytes);
  return error;
}

int FaultyDisk::truncate(const Handle& handle, int64_t size) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(false, nullptr)) return error;
  handle->changes.push_back({true, size, ""});
  applyTo(handle->changes.back(), handle->bytes);
  return 0;
}

int FaultyDisk::sync(const Handle& handle) {
  const std::lock_guard lock(mutex_);
  const int error = begin(false, nullptr);
  if (ignore_syncs_) return error;
  if (error == 0) {
    for (const Change& change : handle->changes) applyTo(change, handle->durable_bytes);
  }
  if (!power_lost_) handle->changes.clear();  // also after an error: the pages are clean now and will never be written
  return error;
}

int FaultyDisk::syncFolder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(false, nullptr)) return error;
  const Handle folder = find(path);
  if (!folder || !folder->is_folder) return ENOENT;
  if (!ignore_syncs_) folder->durable_entries = folder->entries;
  return 0;
}

int FaultyDisk::makeFolder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(true, nullptr)) return error;
  if (find(path)) return EEXIST;
  std::string name;
  const Handle folder = folderOf(path, name);
  if (!folder) return ENOENT;
  auto made = std::make_shared<Node>();
  made->is_folder = true;
  made->identity = next_identity_++;
  folder->entries[name] = made;
  return 0;
}

int FaultyDisk::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(true, nullptr)) return error;
  std::string old_name;
  std::string new_name;
  const Handle old_folder = folderOf(from, old_name);
  const Handle new_folder = folderOf(to, new_name);
  if (!old_folder || !new_folder || !old_folder->entries.contains(old_name)) return ENOENT;
  new_folder->entries[new_name] = old_folder->entries[old_name];
  old_folder->entries.erase(old_name);
  return 0;
}

int FaultyDisk::link(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(true, nullptr)) return error;
  const Handle file = find(from);
  std::string name;
  const Handle folder = folderOf(to, name);
  if (!file || !folder) return ENOENT;
  folder->entries[name] = file;
  return 0;
}

int FaultyDisk::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(false, nullptr)) return error;
  std::string name;
  const Handle folder = folderOf(path, name);
  return folder && folder->entries.erase(name) > 0 ? 0 : ENOENT;
}

int FaultyDisk::look(const std::string& path, int64_t& size, uint64_t& identity) {
  Handle node;
  {
    const std::lock_guard lock(mutex_);
    node = find(path);
  }
  if (node) return look(node, size, identity);
  const std::lock_guard lock(mutex_);
  const int error = begin(false, nullptr);
  return error ? error : ENOENT;
}

int FaultyDisk::look(const Handle& handle, int64_t& size, uint64_t& identity) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(false, nullptr)) return error;
  size = static_cast<int64_t>(handle->bytes.size());
  identity = handle->identity;
  return 0;
}

int FaultyDisk::list(const std::string& path, std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(false, nullptr)) return error;
  const Handle folder = find(path);
  if (!folder || !folder->is_folder) return ENOENT;
  for (const auto& [name, node] : folder->entries) names.push_back(name);
  return 0;
}

void FaultyDisk::keep(const Handle& node, Survival survival, std::mt19937& random) {
  if (!node->is_folder) {
    if (survival == Survival::kEverything) return;  // still in the page cache, and still to be written
    if (survival == Survival::kSome) {
      for (const Change& change : node->changes) {
        if (random() % 2 == 0) applyTorn(change, node->durable_bytes, random);
      }
    }
    node->changes.clear();
    node->bytes = node->durable_bytes;
    return;
  }
  if (survival == Survival::kSome) {
    // A random subset of the changed names reached the disk.
    std::map<std::string, Handle> kept = node->durable_entries;
    for (const auto& [name, child] : node->entries) {
      if (random() % 2 == 0) kept[name] = child;
    }
    for (const auto& [name, child] : node->durable_entries) {
      if (!node->entries.contains(name) && random() % 2 == 0) kept.erase(name);
    }
    node->durable_entries = std::move(kept);
  }
  if (survival != Survival::kEverything) node->entries = node->durable_entries;
  for (const auto& [name, child] : node->entries) keep(child, survival, random);
}

void FaultyDisk::restart(Survival survival, uint32_t seed) {
  const std::lock_guard lock(mutex_);
  std::mt19937 random(seed);
  keep(root_, survival, random);
  plan_ = Plan();
  operations_ = 0;
  struck_ = false;
  power_lost_ = false;
}

}  // namespace tessera::storage
