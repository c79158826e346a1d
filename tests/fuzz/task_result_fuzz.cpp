// Bytes of a task process that a hostile model controls: as its result, for each kind of task, and as its progress, in
// pieces. An accepted result names only files that it contains, each once and with a digest.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proto/support/sha256.h"
#include "server/workflows/compile_steps.h"
#include "workers/progress_stream.h"

namespace {

using namespace tessera;  // NOLINT: a fuzzer of one function

void brings(const v1::TaskResult& result, const std::string& name) {
  const auto same = [&](const v1::OutputFile& file) { return file.name() == name; };
  if (std::count_if(result.files().begin(), result.files().end(), same) != 1) std::abort();
  if (!isSha256(server::fileDigest(result, name).sha256())) std::abort();
}

void checkTaken(const v1::TaskResult& result) {
  for (const auto& unit : result.plan().units()) {
    brings(result, unit.file());
    if (!unit.object_file().empty()) brings(result, unit.object_file());
  }
  if (result.has_plan()) brings(result, result.plan().plan_file());
  if (result.plan().has_assembled()) brings(result, result.plan().assembled().artifact_file());
  if (result.has_build()) brings(result, result.build().object_file());
  if (result.has_assemble()) brings(result, result.assemble().artifact_file());
  if (result.has_analyze()) brings(result, result.analyze().report_file());
  for (const auto& proposal : result.search().proposals()) brings(result, proposal.unit_file());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  v1::TaskResult result;
  if (result.ParseFromString(std::string(bytes))) {
    int taken = 0;
    for (int kind = v1::TaskKind_MIN; kind <= v1::TaskKind_MAX; ++kind) {
      if (!server::resultProblem(static_cast<v1::TaskKind>(kind), result).empty()) continue;
      ++taken;
      checkTaken(result);
    }
    if (taken > 1) std::abort();  // it has one payload, which has one kind
  }
  worker::ProgressDecoder whole, pieces;
  const auto told = whole.feed(bytes);
  std::optional<v1::Progress> newest;
  for (size_t at = 0; at < bytes.size();) {
    const size_t piece = std::min<size_t>(1 + data[at] % 7, bytes.size() - at);
    if (auto progress = pieces.feed(bytes.substr(at, piece))) newest = std::move(progress);
    at += piece;
  }
  if (told.has_value() != newest.has_value()) std::abort();
  if (told && told->SerializeAsString() != newest->SerializeAsString()) std::abort();
  return 0;
}
