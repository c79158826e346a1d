#include "compiler/runtime/artifact_reader.h"
#include "compiler/target/cpu_features.h"

namespace tessera::compiler {
namespace {

constexpr std::string_view kHeader = "tessera-requirements 1";
constexpr std::string_view kTriple = "triple ";
constexpr std::string_view kFeature = "feature ";
constexpr std::string_view kSimulated = "simulated ";
constexpr std::string_view kOpenCl = "opencl ";

std::string_view architecture(std::string_view triple) { return triple.substr(0, triple.find('-')); }

}  // namespace

RuntimeStatus parseRequirements(std::string_view text, Requirements* requirements) {
  Requirements parsed;
  bool first = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    if (first && line != kHeader) {
      return runtimeError(TESSERA_INCOMPATIBLE,
                          "target.txt starts with '%.40s'; this runtime reads artifacts of format 1",
                          std::string(line).c_str());
    }
    if (line.starts_with(kTriple)) {
      parsed.triple = line.substr(kTriple.size());
    } else if (line.starts_with(kFeature)) {
      parsed.features.emplace_back(line.substr(kFeature.size()));
    } else if (line.starts_with(kSimulated)) {
      parsed.simulated = line.substr(kSimulated.size());
    } else if (line.starts_with(kOpenCl)) {
      parsed.opencl = line.substr(kOpenCl.size());
    } else if (!first) {
      return runtimeError(TESSERA_CORRUPT,
                          "target.txt has the line '%.40s'; known are 'triple', 'feature', 'simulated' and 'opencl'",
                          std::string(line).c_str());
    }
    first = false;
  }
  if (parsed.triple.empty() && parsed.simulated.empty() && parsed.opencl.empty())
    return runtimeError(TESSERA_CORRUPT, "target.txt names no triple");
  *requirements = std::move(parsed);
  return {};
}

std::string printRequirements(const Requirements& requirements) {
  std::string text = std::string(kHeader) + "\n";
  if (!requirements.simulated.empty()) return text + std::string(kSimulated) + requirements.simulated + "\n";
  if (!requirements.opencl.empty()) return text + std::string(kOpenCl) + requirements.opencl + "\n";
  text += std::string(kTriple) + requirements.triple + "\n";
  for (const std::string& feature : requirements.features) text += std::string(kFeature) + feature + "\n";
  return text;
}

RuntimeStatus checkHost(const Requirements& requirements) {
  if (!requirements.simulated.empty()) {
    return runtimeError(TESSERA_INCOMPATIBLE,
                        "this artifact is a program for the described chip %.64s, which no host runs; `tessera run` "
                        "simulates it",
                        requirements.simulated.c_str());
  }
  if (!requirements.opencl.empty()) {
    return runtimeError(TESSERA_INCOMPATIBLE,
                        "this artifact is a program for OpenCL devices (%.64s), which this runtime does not load; "
                        "`tessera run` runs it on the first OpenCL device of the machine",
                        requirements.opencl.c_str());
  }
  const std::string_view host = hostArchitecture();
  if (architecture(requirements.triple) != host) {
    return runtimeError(TESSERA_INCOMPATIBLE, "the artifact is for %.64s, this host is %s; compile for this host",
                        requirements.triple.c_str(), std::string(host).c_str());
  }
  std::string missing, denied;
  for (const std::string& feature : requirements.features) {
    const FeatureState state = hostFeature(feature);
    if (state == FeatureState::kPresent) continue;
    (state == FeatureState::kDenied ? denied : missing) += " " + feature.substr(0, 32);
  }
  if (!missing.empty()) {
    return runtimeError(TESSERA_INCOMPATIBLE,
                        "this host lacks CPU features the artifact needs:%s (absent, or not enabled by the operating "
                        "system); compile for this host",
                        missing.c_str());
  }
  if (!denied.empty()) {
    return runtimeError(TESSERA_INCOMPATIBLE,
                        "the kernel does not give this process the registers of%s, which the artifact needs; allow "
                        "arch_prctl, give threads larger signal stacks, or compile for this host",
                        denied.c_str());
  }
  return {};
}

}  // namespace tessera::compiler
