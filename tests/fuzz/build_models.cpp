// Compiles models without a service, one after the other, for campaigns:
//   build_models < REQUESTS
// A request is one line: MODEL, TARGET (built-in name, host or description file), the -O level and ARTIFACT, separated
// by tabs. The answer is the line "built" or "not built"; the product reports reasons. Each request is compiled in its
// own process, forked from one that has started the compiler, so a crash or hang affects one request only.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "compiler/driver/pipeline.h"
#include "compiler/driver/warm_up.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"
#include "proto/support/status_macros.h"

namespace tessera {
namespace {

constexpr unsigned kPatienceSeconds = 300;

absl::StatusOr<v1::Target> targetOf(const std::string& name) {
  if (name == "host") return compiler::detectHostTarget();
  if (const v1::Target* builtin = compiler::findBuiltinTarget(name)) return *builtin;
  std::ostringstream text;
  text << std::ifstream(name).rdbuf();
  return compiler::parseTarget(text.str());
}

absl::Status build(const std::vector<std::string>& request) {
  compiler::PlanRequest wanted;
  wanted.model_path = request[0];
  TESSERA_ASSIGN_OR_RETURN(wanted.target, targetOf(request[1]));
  int level = 0;
  if (!absl::SimpleAtoi(request[2], &level)) return absl::InvalidArgumentError("the level is no number");
  wanted.spec.mutable_options()->set_opt_level(level);
  wanted.weights_path = request[3] + ".weights";
  TESSERA_ASSIGN_OR_RETURN(auto planned, compiler::plan(wanted, [](const v1::Progress&) {}));
  compiler::AssembleRequest whole;
  whole.name = "cases";
  for (const v1::BuildUnit& unit : planned.units) {
    TESSERA_ASSIGN_OR_RETURN(auto built, compiler::build(unit));
    whole.objects.push_back(std::move(built));
  }
  whole.plan = std::move(planned.plan);
  if (planned.has_weights) whole.weights_path = wanted.weights_path;
  whole.artifact_path = request[3];
  return compiler::assemble(whole).status();
}

/// Compiles one request in a forked process.
bool isBuilt(const std::vector<std::string>& request) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    alarm(kPatienceSeconds);
    const absl::Status status = build(request);
    if (!status.ok()) std::cerr << request[0] << ": " << status.message() << std::endl;
    _exit(status.ok() ? 0 : 1);
  }
  int ended = 0;
  while (waitpid(child, &ended, 0) < 0 && errno == EINTR) {
  }
  unlink((request[3] + ".weights").c_str());
  return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

}  // namespace
}  // namespace tessera

int main() {
  if (const absl::Status status = tessera::compiler::warmUp(); !status.ok()) {
    std::cerr << status.message() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> request = absl::StrSplit(line, '\t');
    std::cout << (request.size() == 4 && tessera::isBuilt(request) ? "built" : "not built") << std::endl;
  }
  return 0;
}
