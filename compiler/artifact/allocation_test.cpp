// Counts every allocation of the process: a separate binary, because it replaces malloc.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>

#include "compiler/artifact/ir_kernels.h"
#include "compiler/driver/pipeline.h"
#include "compiler/runtime/tessera.h"

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESSERA_MALLOC_IS_TAKEN 1
#endif
#endif

#ifndef TESSERA_MALLOC_IS_TAKEN
// glibc's names for the functions replaced here; operator new calls malloc.
extern "C" {
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wreserved-identifier"
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* pointer, size_t size);
#pragma clang diagnostic pop
void* malloc(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(size_t nmemb, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(nmemb, size);
}
void* realloc(void* ptr, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(ptr, size);
}
}
#endif

namespace tessera::compiler {
namespace {

TEST(Allocation, RunDoesNotAllocate) {
#ifdef TESSERA_MALLOC_IS_TAKEN
  GTEST_SKIP() << "a sanitizer has replaced malloc already";
#endif
  constexpr int64_t kN = 5000;
  SmallModel model(kN);
  AssembleRequest request;
  request.plan = model.plan;
  request.objects = model.objects;
  request.weights_path = testing::TempDir() + "allocation_weights.bin";
  request.artifact_path = testing::TempDir() + "allocation.tsra";
  std::ofstream(request.weights_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(model.weights.data()),
             static_cast<std::streamsize>(model.weights.size() * 4));
  ASSERT_TRUE(assemble(request).ok());
  tessera_artifact* artifact = nullptr;
  ASSERT_EQ(tessera_artifact_load(request.artifact_path.c_str(), 0, &artifact), TESSERA_OK) << tessera_last_error();
  for (int threads : {1, 3}) {
    tessera_session* session = nullptr;
    ASSERT_EQ(tessera_session_create(artifact, threads, &session), TESSERA_OK);
    const std::vector<float> x(kN, 1.0f);
    std::vector<float> y(kN);
    std::vector<int64_t> ns(2);
    const tessera_const_buffer input = {x.data(), x.size() * 4};
    const tessera_buffer output = {y.data(), y.size() * 4};
    ASSERT_EQ(tessera_session_run(session, &input, 1, &output, 1), TESSERA_OK);
    const int64_t before = allocations;
    ASSERT_GT(before, 0) << "the counter does not count";
    for (int i = 0; i < 20; ++i) {
      tessera_session_run(session, &input, 1, &output, 1);
      tessera_session_profile(session, &input, 1, &output, 1, ns.data(), ns.size());
      const int64_t extent = kN;
      const tessera_shape shape = {&extent, 1};
      tessera_session_set_input_shapes(session, &shape, 1);
    }
    EXPECT_EQ(allocations - before, 0) << threads << " threads";
    tessera_session_destroy(session);
  }
  tessera_artifact_destroy(artifact);
}

}  // namespace
}  // namespace tessera::compiler
