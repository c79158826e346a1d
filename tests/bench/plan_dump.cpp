// Prints all decisions for models and targets as text, to compare two builds of the compiler with diff:
//   plan_dump [--objects] [--targets A,B,...] MODEL.onnx... > FILE
// Prints one line for each graph decision and each workload with its schedule tree; --objects adds the digest of its
// object. Targets are built-in names or description files. Not a test.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "compiler/driver/pipeline.h"
#include "compiler/schedule/text.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/support/sha256.h"

namespace tessera {
namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

v1::Target targetOf(const std::string& name) {
  if (absl::StrContains(name, '.')) {
    std::ostringstream text;
    text << std::ifstream(name).rdbuf();
    auto target = compiler::parseTarget(text.str());
    if (!target.ok()) fail(name + ": " + std::string(target.status().message()));
    return *target;
  }
  const v1::Target* target = compiler::findBuiltinTarget(name);
  if (target == nullptr) fail("no target " + name);
  return *target;
}

void print(const std::string& model, const v1::Target& target, bool objects) {
  compiler::PlanRequest request;
  request.model_path = model;
  request.target = target;
  const auto planned = compiler::plan(request, [](const v1::Progress&) {});
  const std::string stem = std::filesystem::path(model).stem();
  std::printf("== %s for %s\n", stem.c_str(), target.name().c_str());
  if (!planned.ok()) {
    std::printf("refused: %s\n", std::string(planned.status().message()).c_str());
    return;
  }
  for (const v1::Decision& decision : planned->plan.report().decisions())
    std::printf("%s %s at %s: %s (%.6g against %.6g %s)\n", decision.taken() ? "taken" : "left",
                decision.kind().c_str(), decision.place().c_str(), decision.reason().c_str(), decision.cost(),
                decision.alternative_cost(), decision.unit().c_str());
  for (const v1::BuildUnit& unit : planned->units) {
    std::printf("workload %s\n%s", unit.workload_hash().c_str(), compiler::printSchedule(unit.schedule()).c_str());
    if (!objects) continue;
    const auto built = compiler::build(unit);
    std::printf("object %s\n", built.ok() ? sha256Hex(deterministicBytes(*built)).c_str()
                                          : std::string(built.status().message()).c_str());
  }
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  bool objects = false;
  std::vector<std::string> targets = {"cascadelake"}, models;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--objects") {
      objects = true;
    } else if (argument == "--targets" && i + 1 < count) {
      targets = absl::StrSplit(arguments[++i], ',');
    } else {
      models.push_back(argument);
    }
  }
  for (const std::string& model : models)
    for (const std::string& target : targets) tessera::print(model, tessera::targetOf(target), objects);
  return 0;
}
