// Single kernels of random shapes and layouts against the oracle: kernel_fuzz --seed=N --count=N [--schedules].
// Without flags 150, as the compiler would build them; --schedules changes fields of
// its tile trees at random.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "compiler/codegen/testing/check_workload.h"
#include "compiler/codegen/testing/random_workload.h"

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

int main(int argc, char** argv) {
  using tessera::compiler::codegen::testing::KernelFuzz;
  unsigned first_seed = 1, count = 150;
  bool schedules = false;
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (absl::ConsumePrefix(&word, "--seed=")) {
      (void)absl::SimpleAtoi(word, &first_seed);
    } else if (absl::ConsumePrefix(&word, "--count=")) {
      (void)absl::SimpleAtoi(word, &count);
    } else if (word == "--schedules") {
      schedules = true;
    }
  }
  std::printf("kernel_fuzz --seed=%u --count=%u\n", first_seed, count);
  for (unsigned seed = first_seed; seed - first_seed < count; ++seed)
    ::testing::RegisterTest("KernelFuzz", std::to_string(seed).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [=]() -> KernelFuzz* { return new KernelFuzz(seed, schedules); });
  return RUN_ALL_TESTS();
}
