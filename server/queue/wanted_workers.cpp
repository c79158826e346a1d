#include "server/queue/wanted_workers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "proto/support/status_macros.h"
#include "server/queue/task_traits.h"
#include "server/queue/workers.h"

namespace tessera::server {
namespace {

/// The workers whose slots count: the lost ones only if no live worker accepts a kind.
struct KnownWorkers {
  std::vector<v1::Worker> live, lost;
};

absl::StatusOr<KnownWorkers> readWorkers(storage::Reader& reader) {
  KnownWorkers known;
  TESSERA_RETURN_IF_ERROR(forWorkers(reader, [&](const v1::Worker& worker) {
    // Stored without the tasks and the description of the host, of which a fleet has many megabytes.
    v1::Worker entry;
    entry.set_slots(worker.slots());
    entry.set_measuring_cores(worker.measuring_cores());
    *entry.mutable_kinds() = worker.kinds();
    (worker.state() == v1::Worker::LOST ? known.lost : known.live).push_back(std::move(entry));
    return true;
  }));
  return known;
}

/// Median number of slots of the workers that accept tasks of this kind; 0: there is none.
int64_t medianSlots(const std::vector<v1::Worker>& workers, v1::TaskKind kind) {
  std::vector<int64_t> slots;
  for (const v1::Worker& worker : workers) {
    if (acceptsKind(worker, kind)) {
      slots.push_back(std::max(1, worker.slots()));
    }
  }
  if (slots.empty()) {
    return 0;
  }
  const auto middle = slots.begin() + static_cast<std::ptrdiff_t>((slots.size() - 1) / 2);
  std::nth_element(slots.begin(), middle, slots.end());
  return *middle;
}

int64_t slotsPerWorker(const KnownWorkers& known, v1::TaskKind kind) {
  const int64_t live = medianSlots(known.live, kind);
  return std::max<int64_t>(1, live > 0 ? live : medianSlots(known.lost, kind));
}

}  // namespace

absl::StatusOr<std::vector<WantedWorkers>> wantedWorkers(storage::Reader& reader) {
  TESSERA_ASSIGN_OR_RETURN(const KnownWorkers workers, readWorkers(reader));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<storage::TargetDepth> depths, reader.targetDepths());
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> leased, reader.leasedTasks());
  std::map<std::pair<v1::TaskKind, std::string>, WantedWorkers> all;
  for (const storage::TargetDepth& depth : depths) {
    all[{depth.kind, depth.target}].waiting = depth.ready;
  }
  for (const v1::Task& task : leased) {
    ++all[{task.spec().kind(), task.target()}].running;
  }
  std::vector<WantedWorkers> wanted;
  for (auto& [key, entry] : all) {
    entry.kind = key.first;
    entry.target = key.second;
    entry.slots_per_worker = slotsPerWorker(workers, entry.kind);
    entry.slots = (entry.waiting + entry.running) * (entry.kind == kMeasureKind ? entry.slots_per_worker : 1);
    wanted.push_back(std::move(entry));
  }
  return wanted;
}

}  // namespace tessera::server
