/* A loop over tessera_session_run in C, for tests/bench/python_calls: the time of a call without Python. */
#include <time.h>

#include "compiler/runtime/tessera.h"

/* Nanoseconds of one call, over `calls` of them; negative where one failed. `run` is tessera_session_run of the library
 * that made the session: this one links none, so that there is one copy of it in the process. */
typedef tessera_status (*run_function)(tessera_session*, const tessera_const_buffer*, size_t, const tessera_buffer*,
                                       size_t);

/* NOLINTNEXTLINE(misc-use-internal-linkage): found by its name */
__attribute__((visibility("default"))) double call_loop(run_function run, tessera_session* session,
                                                        const tessera_const_buffer* inputs, size_t num_inputs,
                                                        const tessera_buffer* outputs, size_t num_outputs, int calls) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < calls; ++i) {
    if (run(session, inputs, num_inputs, outputs, num_outputs) != TESSERA_OK) return -1;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / calls;
}
