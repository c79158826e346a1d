// Single kernels of random shapes and layouts against the oracle: kernel_fuzz --seed=N --count=N [--schedules]. Built
// with their default schedules; --schedules changes fields of the tile trees at random. Without flags, a hundred of
// each from seed TESSERA_FUZZ_SEED, or from 1 if that is unset.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/random_workload.h"

namespace tessera::compiler::codegen::testing {
namespace {

class KernelFuzz : public ::testing::Test {
 public:
  KernelFuzz(unsigned seed, bool schedules) : seed_(seed), schedules_(schedules) {}
  void TestBody() override {
    const RandomWorkload workload = randomWorkload(seed_);
    SCOPED_TRACE("kernel_fuzz --seed=" + std::to_string(seed_) + " --count=1" + (schedules_ ? " --schedules" : "") +
                 ", a " + workload.family);
    CheckOptions options;
    options.seed = seed_;
    options.low = workload.low;
    options.high = workload.high;
    v1::BuildUnit its;
    options.adjust = [&](v1::BuildUnit& unit) { its = unit; };
    if (schedules_) options.edit = [&](v1::Schedule& schedule) { randomSchedule(seed_, its, schedule); };
    checkWorkload(workload.ir, options);
  }

 private:
  unsigned seed_;
  bool schedules_;
};

}  // namespace
}  // namespace tessera::compiler::codegen::testing

namespace {

void registerKernels(unsigned first_seed, unsigned count, bool schedules) {
  using tessera::compiler::codegen::testing::KernelFuzz;
  std::printf("kernel_fuzz --seed=%u --count=%u%s\n", first_seed, count, schedules ? " --schedules" : "");
  for (unsigned seed = first_seed; seed - first_seed < count; ++seed)
    ::testing::RegisterTest(schedules ? "KernelFuzzSchedules" : "KernelFuzz", std::to_string(seed).c_str(), nullptr,
                            nullptr, __FILE__, __LINE__,
                            [=]() -> KernelFuzz* { return new KernelFuzz(seed, schedules); });
}

}  // namespace

int main(int argc, char** argv) {
  unsigned first_seed = 1, count = 100;
  bool schedules = false;
  ::testing::InitGoogleTest(&argc, argv);
  const char* chosen = std::getenv("TESSERA_FUZZ_SEED");
  if (uint64_t wide = 0; chosen) {  // other random tests accept longer numbers
    if (!absl::SimpleAtoi(chosen, &wide)) return 2;
    first_seed = static_cast<unsigned>(wide);
  }
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (absl::ConsumePrefix(&word, "--seed=")) {
      if (!absl::SimpleAtoi(word, &first_seed)) return 2;
    } else if (absl::ConsumePrefix(&word, "--count=")) {
      if (!absl::SimpleAtoi(word, &count)) return 2;
    } else if (word == "--schedules") {
      schedules = true;
    } else {
      return 2;
    }
  }
  registerKernels(first_seed, count, schedules);
  if (argc == 1) registerKernels(first_seed, count, true);
  return RUN_ALL_TESTS();
}
