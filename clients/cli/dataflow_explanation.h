#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "clients/cli/command.h"

/// `tessera explain --dataflow`: for each fused group of an artifact for a described chip, the dataflow that it was
/// compiled to and the best one that the dataflow search finds.
namespace tessera::client {

struct DataflowExplanationFlags {
  bool wanted = false;
  std::string time = "2s";  ///< for each search

  void addTo(CLI::App* command);
};

/// Prints groups and chains with their trees, movement and gaps; draws the trees to `svg` unless it is empty. The bytes
/// are an artifact file. Fails with INVALID_ARGUMENT if it is not one for a described chip.
absl::Status explainDataflow(const CommandLine& line, const DataflowExplanationFlags& flags,
                             std::span<const uint8_t> artifact, const std::string& svg);

}  // namespace tessera::client
