/* The interface from plain C, against the shared library: the view of a program in another language. */
#include <stdio.h>
#include <string.h>

#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/tessera.h"

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  printf("does not hold: %s (last error: %s)\n", what, tessera_last_error());
  ++failures;
}

int main(void) {
  const char bytes[] = "not an artifact";
  tessera_artifact* artifact = NULL;
  tessera_session* session = NULL;
  tessera_tensor_info info;

  expect(strlen(tessera_version()) > 0, "the library has a version");
  expect(tessera_dtype_size(TESSERA_F64) == 8 && tessera_dtype_size(0) == 0, "element sizes");

  expect(tessera_artifact_load("/nonexistent.tsra", 0, &artifact) == TESSERA_IO_ERROR, "a missing file");
  expect(strstr(tessera_last_error(), "/nonexistent.tsra") != NULL, "the error names the file");
  expect(tessera_artifact_load_memory(bytes, sizeof(bytes), 0, &artifact) == TESSERA_CORRUPT, "bytes that are no zip");
  expect(tessera_artifact_load_fd(-1, 0, &artifact) == TESSERA_IO_ERROR, "a closed descriptor");
  expect(artifact == NULL, "nothing is handed out on failure");

  expect(tessera_artifact_num_inputs(NULL) == 0, "no artifact has no inputs");
  expect(tessera_artifact_input(NULL, 0, &info) == TESSERA_INVALID_ARGUMENT, "a null artifact");
  expect(tessera_session_create(NULL, 1, &session) == TESSERA_INVALID_ARGUMENT, "a session of nothing");
  expect(tessera_session_replace(NULL, NULL) == TESSERA_INVALID_ARGUMENT, "another artifact for no session");
  expect(tessera_session_run(NULL, NULL, 0, NULL, 0) == TESSERA_INVALID_ARGUMENT, "a run of nothing");
  tessera_state* state = NULL;
  tessera_state_info state_info;
  int64_t extent = 0;
  expect(tessera_artifact_num_states(NULL) == 0, "no artifact has no states");
  expect(tessera_artifact_state(NULL, 0, &state_info) == TESSERA_INVALID_ARGUMENT, "a state of no artifact");
  expect(tessera_state_create(NULL, &state) == TESSERA_INVALID_ARGUMENT, "values of no artifact");
  expect(tessera_state_reset(NULL) == TESSERA_INVALID_ARGUMENT, "initial values of no state");
  expect(tessera_state_shape(NULL, 0, &extent) == TESSERA_INVALID_ARGUMENT, "the shape of no state");
  expect(tessera_state_get(NULL, 0, &extent, 8) == TESSERA_INVALID_ARGUMENT, "the value of no state");
  expect(tessera_state_set(NULL, 0, &extent, 1, &extent, 8) == TESSERA_INVALID_ARGUMENT, "a value for no state");
  expect(tessera_state_save(NULL, "/nonexistent/x") == TESSERA_INVALID_ARGUMENT, "saving no state");
  expect(tessera_state_load(NULL, "/nonexistent/x") == TESSERA_INVALID_ARGUMENT, "loading no state");
  expect(tessera_session_run_state(NULL, NULL, NULL, 0, NULL, 0) == TESSERA_INVALID_ARGUMENT, "a run of no state");
  tessera_state_destroy(NULL);
  tessera_session_destroy(NULL);
  tessera_artifact_destroy(NULL);
  return failures != 0;
}
