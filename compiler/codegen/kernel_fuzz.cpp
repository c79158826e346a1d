// Single kernels of random shapes, layouts and schedules against the oracle: kernel_fuzz --seed=N --count=N.
// Without flags, as many as CI has time for, from a seed that TESSERA_FUZZ_SEED may give.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "compiler/codegen/testing/check_workload.h"
#include "compiler/codegen/testing/random_workload.h"

namespace tessera::compiler::codegen::testing {
namespace {

unsigned first_seed = 1;
unsigned count = 300;

TEST(KernelFuzz, RandomWorkloadsWithRandomSchedules) {
  std::map<std::string, int> families;
  int wrong = 0;
  for (unsigned seed = first_seed; seed - first_seed < count; ++seed) {
    const RandomWorkload workload = randomWorkload(seed);
    SCOPED_TRACE("kernel_fuzz --seed=" + std::to_string(seed) + " --count=1, a " + workload.family);
    CheckOptions options;
    options.seed = seed;
    options.tolerance = workload.tolerance;
    options.low = workload.low;
    options.high = workload.high;
    options.adjust = [seed](v1::BuildUnit& unit) { randomSchedule(seed, unit); };
    checkWorkload(workload.ir, options);
    ++families[workload.family];
    if (HasFailure() && ++wrong > 5) break;
  }
  for (const auto& [family, checked] : families) std::printf("   %d %s\n", checked, family.c_str());
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing

int main(int argc, char** argv) {
  using namespace tessera::compiler::codegen::testing;  // NOLINT: what this program is made of
  ::testing::InitGoogleTest(&argc, argv);
  if (const char* given = std::getenv("TESSERA_FUZZ_SEED")) (void)absl::SimpleAtoi(given, &first_seed);
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (absl::ConsumePrefix(&word, "--seed=")) {
      (void)absl::SimpleAtoi(word, &first_seed);
    } else if (absl::ConsumePrefix(&word, "--count=")) {
      (void)absl::SimpleAtoi(word, &count);
    }
  }
  std::printf("kernel_fuzz --seed=%u --count=%u\n", first_seed, count);
  return RUN_ALL_TESTS();
}
