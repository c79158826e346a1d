#include "server/workflows/sharing.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "proto/support/status_macros.h"
#include "server/canonical.h"
#include "server/limits.h"

namespace tessera::server {
namespace {

constexpr int kMaxWitnesses = 8;

/// Key of a unit and compiler, without the project.
std::string keyOf(const QueueTransaction& queue, const v1::Digest& unit) {
  return KeyHash().add("tessera.unit").add(unit.sha256()).add(queue.rules.compiler_version).finish();
}

/// Empty if no worker has built the unit.
absl::StatusOr<v1::Reproduction> known(QueueTransaction& queue, const std::string& key) {
  auto stored = queue.tx.getReproduction(key);
  if (absl::IsNotFound(stored.status())) {
    return v1::Reproduction();
  }
  return stored;
}

bool agree(const v1::Reproduction& reproduction) {
  return std::all_of(reproduction.witnesses().begin(), reproduction.witnesses().end(), [&](const auto& witness) {
    return witness.object().sha256() == reproduction.witnesses(0).object().sha256();
  });
}

/// Identity of the builder: the owner of its credential, since one credential can register many workers.
std::string witnessOf(QueueTransaction& queue, const std::string& worker_id) {
  const auto worker = queue.tx.getWorker(worker_id);
  const bool named = worker.ok() && !worker->owner().empty() && worker->owner() != kLocalWorkers;
  return named ? worker->owner() : worker_id;
}

}  // namespace

absl::Status noteReproduction(QueueTransaction& queue, const std::string& worker_id, const v1::Digest& unit,
                              const v1::Digest& object) {
  if (!queue.rules.share_reproduced) {
    return absl::OkStatus();
  }
  const std::string key = keyOf(queue, unit);
  const std::string who = witnessOf(queue, worker_id);
  TESSERA_ASSIGN_OR_RETURN(v1::Reproduction reproduction, known(queue, key));
  const bool told = std::any_of(
      reproduction.witnesses().begin(), reproduction.witnesses().end(),
      [&](const auto& witness) { return witness.worker_id() == who && witness.object().sha256() == object.sha256(); });
  // Eight builders are enough, but a builder that disagrees must always be recorded.
  const bool news = reproduction.witnesses_size() < kMaxWitnesses || agree(reproduction);
  if (told || !news) {
    return absl::OkStatus();
  }
  v1::Reproduction::Witness* witness = reproduction.witnesses_size() < kMaxWitnesses
                                           ? reproduction.add_witnesses()
                                           : reproduction.mutable_witnesses(kMaxWitnesses - 1);
  witness->set_worker_id(who);
  *witness->mutable_object() = object;
  if (!agree(reproduction)) {
    spdlog::warn("unit {} was built to different objects, worker {} made {}: it is not shared between projects",
                 unit.sha256(), worker_id, object.sha256());
  }
  return queue.tx.putReproduction(key, reproduction);
}

absl::StatusOr<std::optional<v1::Digest>> reproducedObject(QueueTransaction& queue, const v1::Digest& unit) {
  if (!queue.rules.share_reproduced) {
    return std::nullopt;
  }
  TESSERA_ASSIGN_OR_RETURN(const v1::Reproduction reproduction, known(queue, keyOf(queue, unit)));
  // One builder can be present twice only with different objects.
  if (reproduction.witnesses_size() < 2 || !agree(reproduction)) {
    return std::nullopt;
  }
  return reproduction.witnesses(0).object();
}

}  // namespace tessera::server
