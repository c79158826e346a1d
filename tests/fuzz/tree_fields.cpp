// Checks promises about schedule trees, for all workloads of models:
//   tree_fields [--seed N] [--tries N] [--bf16] TARGET MODEL.onnx...
// Printing and parsing a tree gives the same object. --tries fields are changed, one at a time: each change gives other
// code, or the tree is rejected as INVALID_SCHEDULE. Prints one line for each model, and ignored fields. TARGET is a
// built-in name. Exit status 1: a promise is broken.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/testing/tree_mutations.h"
#include "compiler/driver/pipeline.h"
#include "compiler/schedule/text.h"
#include "compiler/target/target.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/messages/failure.h"

namespace tessera {
namespace {

using compiler::codegen::testing::Mutations;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(2);
}

struct Tally {
  int workloads = 0, followed = 0, refused = 0, broken = 0;
};

void tell(Tally& tally, const v1::BuildUnit& unit, const std::string& what) {
  ++tally.broken;
  std::printf("workload %s: %s\n%s", unit.workload_hash().c_str(), what.c_str(),
              compiler::printSchedule(unit.schedule()).c_str());
}

std::string objectOf(const v1::BuildUnit& unit) {
  const auto built = compiler::build(unit);
  return built.ok() ? deterministicBytes(*built) : std::string(built.status().message());
}

void checkText(const v1::BuildUnit& unit, Tally& tally) {
  const auto parsed = compiler::parseSchedule(compiler::printSchedule(unit.schedule()));
  if (!parsed.ok()) return tell(tally, unit, "is not read back: " + std::string(parsed.status().message()));
  v1::BuildUnit again = unit;
  *again.mutable_schedule() = *parsed;
  if (deterministicBytes(again.schedule()) != deterministicBytes(unit.schedule()))
    return tell(tally, unit, "is read back as another tree");
  if (objectOf(again) != objectOf(unit)) tell(tally, unit, "gives two objects");
}

void checkFields(const v1::BuildUnit& unit, size_t tries, std::mt19937& random, Tally& tally) {
  std::string before;
  if (const absl::Status status = compiler::checkSchedule(unit, &before); !status.ok())
    return tell(tally, unit, std::string(status.message()));
  Mutations mutations(unit.schedule(), random);
  std::vector<size_t> places(mutations.count());
  std::iota(places.begin(), places.end(), size_t{0});
  std::ranges::shuffle(places, random);
  places.resize(std::min(places.size(), tries));
  for (const size_t place : places) {
    v1::BuildUnit changed = unit;
    std::string what, after;
    std::tie(*changed.mutable_schedule(), what) = mutations.at(place);
    const absl::Status status = compiler::checkSchedule(changed, &after);
    if (status.ok()) {
      ++tally.followed;
      if (after == before) tell(tally, changed, what + " is ignored, of\n" + compiler::printSchedule(unit.schedule()));
      continue;
    }
    ++tally.refused;
    const v1::Failure::Reason reason = failureOf(status).reason();
    if (reason != v1::Failure::INVALID_SCHEDULE && reason != v1::Failure::INVALID_INPUT)
      tell(tally, changed, what + " is refused otherwise: " + std::string(status.message()));
  }
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  using namespace tessera;  // NOLINT: everything of this file is about it
  unsigned seed = 1;
  size_t tries = 10;
  compiler::PlanRequest request;
  std::vector<std::string> words;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--seed" && i + 1 < count) {
      if (!absl::SimpleAtoi(arguments[++i], &seed)) fail("--seed N");
    } else if (argument == "--tries" && i + 1 < count) {
      if (!absl::SimpleAtoi(arguments[++i], &tries)) fail("--tries N");
    } else if (argument == "--bf16") {
      request.spec.mutable_options()->set_precision(v1::CompileOptions::BF16);
    } else {
      words.push_back(argument);
    }
  }
  if (words.size() < 2) fail("usage: tree_fields [--seed N] [--tries N] [--bf16] TARGET MODEL.onnx...");
  const v1::Target* target = compiler::findBuiltinTarget(words[0]);
  if (target == nullptr) fail("no target " + words[0]);
  request.target = *target;
  int broken = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    request.model_path = words[i];
    const auto planned = compiler::plan(request, [](const v1::Progress&) {});
    if (!planned.ok()) fail(words[i] + ": " + std::string(planned.status().message()));
    std::mt19937 random(seed);
    Tally tally;
    for (const v1::BuildUnit& unit : planned->units) {
      ++tally.workloads;
      checkText(unit, tally);
      checkFields(unit, tries, random, tally);
    }
    std::printf("%s for %s: %d workloads, %d changed fields followed, %d refused, %d promises broken\n",
                std::filesystem::path(words[i]).stem().c_str(), words[0].c_str(), tally.workloads, tally.followed,
                tally.refused, tally.broken);
    broken += tally.broken;
  }
  return broken == 0 ? 0 : 1;
}
