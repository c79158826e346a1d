#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/runtime/module_image.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

void kernel(void* const*, int64_t, int64_t, void*, void*) {}

/// Tables as a compiler would emit them, all within one object, plus the code they point to.
struct Tables {
  const char text[32] = "name";
  const char triple[32] = "x86_64-unknown-linux-gnu";
  const char features[16] = "avx2 fma";
  int64_t shape[2] = {4, 8};
  tessera_module_tensor input{};
  tessera_module_tensor output{};
  int64_t value[16] = {};
  tessera_module_buffer buffers[5]{};
  tessera_module_phase phase{};
  int32_t operands[4] = {0, 1, 2, 3};
  tessera_module_step step{};
  tessera_module_fixed_input fixed{};
  tessera_module_extent extents[2]{};
  tessera_module module{};

  Tables() {
    input = output = {text, TESSERA_F32, 2, shape, 128};
    buffers[0] = {TESSERA_BUFFER_INPUT, 0, 0, 128};
    buffers[1] = {TESSERA_BUFFER_WEIGHT, 0, 64, 64};
    buffers[2] = {TESSERA_BUFFER_ARENA, 0, 128, 128};
    buffers[3] = {TESSERA_BUFFER_OUTPUT, 0, 0, 128};
    buffers[4] = {TESSERA_BUFFER_ARENA, 0, 0, 8};
    phase = {&kernel, 3};
    step = {text, text, &phase, 1, 4, operands, 10};
    fixed = {0, 0, value, 128};
    extents[0] = {0, 0, 4, 0};
    extents[1] = {0, 1, 4, 0};
    module = {TESSERA_MODULE_ABI,
              0,
              text,
              triple,
              features,
              1,
              1,
              &input,
              &output,
              5,
              1,
              buffers,
              &step,
              256,
              64,
              64,
              128,
              1,
              2,
              &fixed,
              extents};
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  RuntimeStatus check(uint64_t weights_bytes = 128) const {
    const auto begin = reinterpret_cast<uintptr_t>(this), code = reinterpret_cast<uintptr_t>(&kernel);
    const ImageSegment segments[] = {{begin, begin + sizeof(Tables), false}, {code, code + 1, true}};
    return checkModule(&module, segments, {"x86_64-unknown-linux-gnu", {"avx2", "fma"}}, weights_bytes);
  }
};

TEST(ModuleCheck, AcceptsWhatTheCompilerEmits) {
  const Tables tables;
  const RuntimeStatus status = tables.check();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ModuleCheck, OtherAbiVersionIsIncompatible) {
  Tables tables;
  tables.module.abi_version = TESSERA_MODULE_ABI + 1;
  EXPECT_EQ(tables.check().code(), TESSERA_INCOMPATIBLE);
}

TEST(ModuleCheck, WeightsMustBeTheExpectedSize) {
  const Tables tables;
  EXPECT_THAT(tables.check(64).message(), HasSubstr("64 bytes of weights"));
}

struct Fault {
  const char* words;
  std::function<void(Tables&)> inject;
};

TEST(ModuleCheck, EveryFaultIsFoundAndNamed) {
  static const int64_t elsewhere[2] = {4, 8};
  static const char outside[] = "outside";
  const Fault faults[] = {
      {"another target", [](Tables& t) { t.module.triple = t.text; }},
      {"another target", [](Tables& t) { t.module.features = t.text; }},
      {"name outside", [](Tables& t) { t.module.compiler_version = outside; }},
      {"impossible amount", [](Tables& t) { t.module.arena_bytes = -1; }},
      {"impossible amount", [](Tables& t) { t.module.scratch_bytes = INT64_MAX; }},
      {"table outside", [](Tables& t) { t.module.num_steps = 1 << 19; }},
      {"table outside", [](Tables& t) { t.module.num_buffers = -1; }},
      {"table outside", [](Tables& t) { t.module.inputs = nullptr; }},
      {"input 0 has its name", [](Tables& t) { t.input.name = outside; }},
      {"input 0 has an unknown element type", [](Tables& t) { t.input.dtype = 77; }},
      {"input 0 has its shape outside", [](Tables& t) { t.input.shape = elsewhere; }},
      {"input 0 has its shape outside", [](Tables& t) { t.input.rank = -1; }},
      {"impossible shape", [](Tables& t) { t.shape[0] = INT64_MAX; }},
      {"impossible shape", [](Tables& t) { t.shape[1] = -8; }},
      {"output 0 has a size", [](Tables& t) { t.output.size_bytes = 64; }},
      {"buffer 0 refers to no such", [](Tables& t) { t.buffers[0].index = 1; }},
      {"buffer 3 refers to no such", [](Tables& t) { t.buffers[3].index = -1; }},
      {"buffer 0 is not the size", [](Tables& t) { t.buffers[0].size_bytes = 256; }},
      {"buffer 1 reaches beyond", [](Tables& t) { t.buffers[1].offset = 128; }},
      {"buffer 2 reaches beyond", [](Tables& t) { t.buffers[2].size_bytes = 129; }},
      {"buffer 2 has an impossible", [](Tables& t) { t.buffers[2].offset = -64; }},
      {"buffer 2 has an offset", [](Tables& t) { t.buffers[2].offset = 32; }},
      {"buffer 2 is of an unknown kind", [](Tables& t) { t.buffers[2].kind = 9; }},
      {"step 0 refers to no such", [](Tables& t) { t.operands[1] = 5; }},
      {"step 0 has its operands", [](Tables& t) { t.step.num_operands = 1 << 18; }},
      {"step 0 has its phases", [](Tables& t) { t.step.phases = nullptr; }},
      {"phase without work", [](Tables& t) { t.phase.grid = 0; }},
      {"phase outside the code",
       [](Tables& t) { t.phase.fn = reinterpret_cast<tessera_kernel_fn>(reinterpret_cast<uintptr_t>(t.shape)); }},
      {"negative operation count", [](Tables& t) { t.step.flops = -1; }},
      {"table outside", [](Tables& t) { t.module.num_fixed_inputs = -1; }},
      {"table outside", [](Tables& t) { t.module.extents = nullptr; }},
      {"fixed input 0 refers to no such", [](Tables& t) { t.fixed.input = 1; }},
      {"fixed input 0 is not the size", [](Tables& t) { t.fixed.size_bytes = 64; }},
      {"fixed input 0 has its value outside", [](Tables& t) { t.fixed.data = elsewhere; }},
      {"extent 0 refers to no such output", [](Tables& t) { t.extents[0].output = -1; }},
      {"extent 1 refers to no such dimension", [](Tables& t) { t.extents[1].dimension = 2; }},
      {"extent 0 refers to no such buffer", [](Tables& t) { t.extents[0].buffer = 5; }},
      {"extent 1 is not in a buffer of one i64", [](Tables& t) { t.extents[1].buffer = 2; }},
      {"extent 1 is out of order", [](Tables& t) { t.extents[1].dimension = 0; }},
  };
  for (const Fault& fault : faults) {
    Tables tables;
    fault.inject(tables);
    const RuntimeStatus status = tables.check();
    EXPECT_EQ(status.code(), TESSERA_CORRUPT) << fault.words;
    EXPECT_THAT(status.message(), HasSubstr(fault.words));
  }
}

}  // namespace
}  // namespace tessera::compiler
