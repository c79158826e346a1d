#include "workers/shared_step_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "proto/support/sha256.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1; missing in older headers
#endif

namespace tessera::worker {
namespace {

constexpr uint64_t kMagic = 0x7073'7773'6e6b'3174;
constexpr size_t kDigits = 64;         // of a key and of a digest
constexpr size_t kBytesOfSlot = 4096;  // bytes of a half per slot
constexpr uint32_t kProbes = 16;

// Other processes read the mapped file while the worker writes, so `used` is set last. A reader may still see a half
// that is being cleared; the digest over key and result detects this.
struct Slot {
  char key[kDigits];
  char digest[kDigits];
  uint64_t offset;  // of the result, from the start of the half
  uint64_t size;
  std::atomic<uint32_t> used;
};

struct Header {
  uint64_t magic = 0;
  uint64_t half_bytes = 0;
  uint32_t slots = 0;  // per half
  std::atomic<uint32_t> younger = 0;
  std::atomic<uint64_t> end = 0;  // used bytes of the younger half
};

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

constexpr size_t kHeaderBytes = 4096;

Slot* slotsOf(char* memory, const Header& header, uint32_t half) {
  return reinterpret_cast<Slot*>(memory + kHeaderBytes + half * header.half_bytes);
}

const Slot* slotsOf(const char* memory, const Header& header, uint32_t half) {
  return slotsOf(const_cast<char*>(memory), header, half);
}

// Keys are digests, so their first digits serve as the hash.
uint32_t firstSlot(std::string_view key, uint32_t slots) {
  uint32_t hash = 0;
  const std::string_view digits = key.substr(0, 8);
  std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  return hash % slots;
}

/// Allocates pages of the file. Without this, the first write through the mapping could raise SIGBUS if memory is not
/// overcommitted.
bool reserve(const FileDescriptor& file, size_t offset, size_t bytes) {
  return bytes == 0 || posix_fallocate(file.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
}

std::string digestOf(std::string_view key, std::string_view result) {
  Sha256 hash;
  hash.update(key);
  hash.update(result);
  return hash.finish();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedStepCache>> SharedStepCache::create(size_t bytes) {
  std::unique_ptr<SharedStepCache> made(new SharedStepCache);
  made->file_ = FileDescriptor(memfd_create("step-cache", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made->file_.valid()) return absl::ErrnoToStatus(errno, "creating the memory file of the step cache");
  const size_t half = bytes / 2 / kHeaderBytes * kHeaderBytes;
  made->bytes_ = kHeaderBytes + 2 * half;
  if (ftruncate(made->file_.get(), static_cast<off_t>(made->bytes_)) != 0)
    return absl::ErrnoToStatus(errno, "space for the step cache");
  void* const memory =
      mmap(nullptr, made->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, made->file_.get(), 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "mapping the step cache");
  made->memory_ = static_cast<char*>(memory);
  const auto slots = static_cast<uint32_t>(half / kBytesOfSlot);
  for (const size_t begin : {size_t{0}, kHeaderBytes + half})
    if (!reserve(made->file_, begin, (begin == 0 ? kHeaderBytes : 0) + slots * sizeof(Slot)))
      return absl::ErrnoToStatus(ENOMEM, "space for the step cache");
  // After sealing, this mapping is the only one that can write.
  constexpr int kSeals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (fcntl(made->file_.get(), F_ADD_SEALS, kSeals) != 0) return absl::ErrnoToStatus(errno, "sealing the step cache");
  auto* const header = new (memory) Header();
  header->half_bytes = half;
  header->slots = slots;
  header->end = header->slots * sizeof(Slot);
  header->magic = kMagic;
  return made;
}

SharedStepCache::~SharedStepCache() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

void SharedStepCache::add(std::string_view key, std::string_view result) {
  if (!isSha256(std::string(key))) return;
  const std::lock_guard lock(mutex_);
  Header& header = *reinterpret_cast<Header*>(memory_);
  // Very small caches have no slots (--step-cache below 64 KiB).
  if (header.slots == 0 || result.size() > header.half_bytes / 8) return;
  uint32_t half = header.younger;
  Slot* slot = nullptr;
  const auto findSlot = [&] {
    Slot* const slots = slotsOf(memory_, header, half);
    for (uint32_t probe = 0; probe < kProbes; ++probe) {
      Slot& each = slots[(firstSlot(key, header.slots) + probe) % header.slots];
      if (each.used == 0 || std::string_view(each.key, kDigits) == key) return &each;
    }
    return static_cast<Slot*>(nullptr);
  };
  slot = findSlot();
  if (slot != nullptr && slot->used != 0) {
    const std::string_view there(memory_ + kHeaderBytes + half * header.half_bytes + slot->offset, slot->size);
    if (digestOf(key, there) == std::string_view(slot->digest, kDigits)) return;
    slot->used = 0;  // damaged; overwrite it
  }
  // The younger half is full: clear the older half and make it the younger.
  if (slot == nullptr || header.end + result.size() > header.half_bytes) {
    half = 1 - half;
    header.younger = half;
    memset(static_cast<void*>(slotsOf(memory_, header, half)), 0, header.slots * sizeof(Slot));
    header.end = header.slots * sizeof(Slot);
    slot = findSlot();
  }
  const size_t offset = kHeaderBytes + half * header.half_bytes + header.end;
  if (!reserve(file_, offset, result.size())) return;
  char* const place = memory_ + offset;
  memcpy(place, result.data(), result.size());
  slot->offset = header.end;
  slot->size = result.size();
  // Publish the slot last: a reader that sees `used` sees the rest.
  memcpy(slot->digest, digestOf(key, result).data(), kDigits);
  memcpy(slot->key, key.data(), kDigits);
  slot->used.store(1, std::memory_order_release);
  header.end += result.size();
}

std::unique_ptr<SharedStepCacheReader> SharedStepCacheReader::open(int descriptor) {
  struct stat file{};
  if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size <= static_cast<off_t>(kHeaderBytes))
    return nullptr;
  const auto bytes = static_cast<size_t>(file.st_size);
  void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<SharedStepCacheReader> reader(new SharedStepCacheReader(static_cast<const char*>(memory), bytes));
  const Header& header = *static_cast<const Header*>(memory);
  const bool sound = header.magic == kMagic && header.slots > 0 && bytes == kHeaderBytes + 2 * header.half_bytes &&
                     header.slots * sizeof(Slot) <= header.half_bytes;
  return sound ? std::move(reader) : nullptr;
}

SharedStepCacheReader::~SharedStepCacheReader() { munmap(const_cast<char*>(memory_), bytes_); }

std::optional<SharedStepCacheReader::Found> SharedStepCacheReader::find(std::string_view key) const {
  if (!isSha256(std::string(key))) return std::nullopt;
  const Header& header = *reinterpret_cast<const Header*>(memory_);
  const uint32_t younger = header.younger & 1U;
  for (const uint32_t half : {younger, 1 - younger}) {
    const Slot* const slots = slotsOf(memory_, header, half);
    for (uint32_t probe = 0; probe < kProbes; ++probe) {
      const Slot& slot = slots[(firstSlot(key, header.slots) + probe) % header.slots];
      // An unused slot ends the probe sequence, as in add().
      if (slot.used.load(std::memory_order_acquire) == 0) break;
      if (std::string_view(slot.key, kDigits) != key) continue;
      const uint64_t offset = slot.offset, size = slot.size;
      if (offset > header.half_bytes || size > header.half_bytes - offset) break;
      // Copy the result before verifying it, since the worker may overwrite it concurrently.
      const std::string digest(slot.digest, kDigits);
      Found found{std::string(memory_ + kHeaderBytes + half * header.half_bytes + offset, size), half != younger};
      if (digestOf(key, found.result) == digest) return found;
      break;
    }
  }
  return std::nullopt;
}

std::shared_ptr<SharedStepCache> ProjectStepCaches::of(const std::string& project) {
  if (project.empty() || bytes_ == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  Project& its = projects_[project];
  its.asked = ++asked_;
  if (its.steps == nullptr) {
    auto made = SharedStepCache::create(bytes_ / kMaxProjects);
    if (!made.ok()) return nullptr;
    its.steps = *std::move(made);
  }
  std::shared_ptr<SharedStepCache> steps = its.steps;
  // Evict the project that asked least recently. Tasks that have its file mapped can still read it.
  if (projects_.size() > kMaxProjects) {
    projects_.erase(std::min_element(projects_.begin(), projects_.end(), [](const auto& one, const auto& other) {
      return one.second.asked < other.second.asked;
    }));
  }
  return steps;
}

std::string encodeStep(std::string_view key, std::string_view result) {
  const auto size = static_cast<uint64_t>(result.size());
  std::string encoded(key);
  encoded.append(reinterpret_cast<const char*>(&size), sizeof(size));
  encoded.append(result);
  return encoded;
}

void addEncoded(SharedStepCache& steps, std::string_view encoded) {
  uint64_t size = 0;
  while (encoded.size() >= kDigits + sizeof(size)) {
    const std::string_view key = encoded.substr(0, kDigits);
    memcpy(&size, encoded.data() + kDigits, sizeof(size));
    encoded.remove_prefix(kDigits + sizeof(size));
    if (size > encoded.size()) return;
    steps.add(key, encoded.substr(0, size));
    encoded.remove_prefix(size);
  }
}

}  // namespace tessera::worker
