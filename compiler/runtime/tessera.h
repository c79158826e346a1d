/* libtessera_rt: loads and runs compiled models.
 *
 *   tessera_artifact* artifact;
 *   tessera_session* session;
 *   if (tessera_artifact_load("model.tsra", 0, &artifact) != TESSERA_OK) puts(tessera_last_error());
 *   tessera_session_create(artifact, 1, &session);
 *   tessera_session_run(session, inputs, n_in, outputs, n_out);
 *
 * Threads: an artifact is immutable; any number of threads and sessions may use one. A session executes one run at a
 * time with its own intermediates and threads; concurrent runs need separate sessions.
 * Memory: a session allocates when it is created, and its first run touches the pages. Later runs neither allocate nor
 * take locks of the C library, with one exception: with ranges (tessera_artifact_ranged_dims), a run may allocate
 * for a new layout of its intermediates if no earlier run had sizes at least as large in all ranges.
 * Trust: an artifact contains native code. Its tables are checked before use; its code is not and cannot be, since this
 * library holds no keys. The caller must know the file, or check its signature on the descriptor that
 * tessera_artifact_load_fd then loads (C++: clients/cpp/trust.h; Python and the command line do so themselves); use
 * `tessera run --sandbox` for artifacts of unknown origin. The file must not change while it is loaded.
 * Loading uses openat, mmap, memfd_create and dlopen. A run makes no system call but futex, except those of the
 * allocation described above and an madvise (huge pages) when it needs more memory than all earlier runs.
 */
#ifndef TESSERA_COMPILER_RUNTIME_TESSERA_H_
#define TESSERA_COMPILER_RUNTIME_TESSERA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TESSERA_API __attribute__((visibility("default")))
#else
#define TESSERA_API
#endif

typedef enum {
  TESSERA_OK = 0,
  TESSERA_INVALID_ARGUMENT = 1, /* a null pointer, a wrong size or alignment */
  TESSERA_IO_ERROR = 2,         /* the operating system refused: file, memory mapping, thread */
  TESSERA_CORRUPT = 3,          /* not an artifact, truncated, a checksum or a table that does not hold */
  TESSERA_INCOMPATIBLE = 4,     /* made for another architecture, or needs CPU features this host lacks */
  TESSERA_OUT_OF_MEMORY = 5,
  TESSERA_BUSY = 6,          /* the session is running already */
  TESSERA_OUT_OF_BOUNDS = 7, /* a guarded run: a kernel wrote outside of its memory */
  TESSERA_RUN_FAULT = 8      /* the run takes a branch of an If that does not work for the sizes */
} tessera_status;

/* The error of this thread's latest failed call: one sentence, valid until the next failure. Never null. */
TESSERA_API const char* tessera_last_error(void);

/* Release of the library, e.g. "0.1.0". */
TESSERA_API const char* tessera_version(void);

/* Element types, numbered as tessera.v1.DataType. */
typedef enum {
  TESSERA_F32 = 1,
  TESSERA_F64 = 2,
  TESSERA_F16 = 3,
  TESSERA_BF16 = 4,
  TESSERA_I8 = 5,
  TESSERA_I16 = 6,
  TESSERA_I32 = 7,
  TESSERA_I64 = 8,
  TESSERA_U8 = 9,
  TESSERA_U16 = 10,
  TESSERA_U32 = 11,
  TESSERA_U64 = 12,
  TESSERA_BOOL = 13 /* one byte, 0 or 1 */
} tessera_dtype;

/* Bytes of one element, 0 for an unknown type. */
TESSERA_API size_t tessera_dtype_size(int32_t dtype);

/* ---- Artifacts ---- */

typedef struct tessera_artifact tessera_artifact;

enum {
  /* Also check the weights' checksum: reads all weights, about a second per 2 GiB. Code and tables are always checked.
   * */
  TESSERA_VERIFY_WEIGHTS = 1
};

/* Loads an artifact file. On success the caller must pass *artifact to tessera_artifact_destroy. Fails with IO_ERROR,
 * CORRUPT, INCOMPATIBLE (before any code is mapped) or OUT_OF_MEMORY. */
TESSERA_API tessera_status tessera_artifact_load(const char* path, uint32_t flags, tessera_artifact** artifact);

/* The same for an open file; the caller keeps ownership of `fd` and may close it afterwards. */
TESSERA_API tessera_status tessera_artifact_load_fd(int fd, uint32_t flags, tessera_artifact** artifact);

/* The same for a file in memory, which must stay unchanged until the artifact is destroyed. Weights are used in place
 * if they are aligned to 64 bytes, which holds if `data` is; otherwise they are copied. */
TESSERA_API tessera_status tessera_artifact_load_memory(const void* data, size_t size, uint32_t flags,
                                                        tessera_artifact** artifact);

/* Null is allowed. Sessions of the artifact stay usable: they keep the parts that they need. */
TESSERA_API void tessera_artifact_destroy(tessera_artifact* artifact);

/* A dense row-major tensor. Pointers live as long as the artifact. */
typedef struct {
  const char* name;
  int32_t dtype; /* tessera_dtype */
  int32_t rank;
  const int64_t* shape; /* rank elements, outermost first */
  int64_t size_bytes;
} tessera_tensor_info;

TESSERA_API size_t tessera_artifact_num_inputs(const tessera_artifact* artifact);
TESSERA_API size_t tessera_artifact_num_outputs(const tessera_artifact* artifact);
/* Fail with INVALID_ARGUMENT when the index is out of range. */
TESSERA_API tessera_status tessera_artifact_input(const tessera_artifact* artifact, size_t index,
                                                  tessera_tensor_info* info);
TESSERA_API tessera_status tessera_artifact_output(const tessera_artifact* artifact, size_t index,
                                                   tessera_tensor_info* info);

/* The value to which an input was fixed when the model was compiled, `size_bytes` of it; null if the input is not
 * fixed. A run with another value fails with INVALID_ARGUMENT. Valid as long as the artifact. */
TESSERA_API const void* tessera_artifact_fixed_input(const tessera_artifact* artifact, size_t index);

/* The value of an input that a run leaves out, `size_bytes` of it: a default of the model, or the fixed value. Null if
 * every run must give the input. Valid as long as the artifact. */
TESSERA_API const void* tessera_artifact_default_input(const tessera_artifact* artifact, size_t index);

/* Dimensions of an output whose extent depends on the data (for example the number of boxes found), as a bit set: bit d
 * stands for dimension d. tessera_artifact_output returns their upper bounds, and the size for those;
 * tessera_session_output_shape returns the extents of a run. With several variants: dimensions bounded in any variant.
 * 0 when the index is out of range. */
TESSERA_API uint64_t tessera_artifact_bounded_dims(const tessera_artifact* artifact, size_t index);

/* Dimensions of an input that were compiled as ranges, "batch=1..64", as a bit set: bit d stands for dimension d. For
 * each range one of the artifact's last inputs, an i64 with the range's name, gives the size in this run: 0 to the
 * greatest size of the variant, or exactly 1 if the greatest size is 1. (A range whose name is a formula of others has
 * the formula's value.) The input's buffer is either dense, in the sizes of the run, and is copied; or it is
 * laid out for the greatest sizes of the variant and used in place: elements after the run's own may then be read but
 * do not affect results; they should be finite, for example 0. tessera_session_output_shape returns the outputs'
 * extents. 0 when the index is out of range. */
TESSERA_API uint64_t tessera_artifact_ranged_dims(const tessera_artifact* artifact, size_t index);
/* Index of the variants' dimension (tessera_artifact_variant_dimension) that determines this extent of an input as a
 * range; -1: none. */
TESSERA_API int32_t tessera_artifact_range_of(const tessera_artifact* artifact, size_t index, size_t dimension);

/* Steps run one after another; each is one fused group of the model. */
typedef struct {
  const char* name;   /* graph nodes it stems from */
  const char* symbol; /* of its kernel; equal workloads share one */
  int32_t num_phases;
  int64_t max_grid; /* of its phases: the number of parts into which it can be split for threads */
  int64_t flops;
} tessera_step_info;

TESSERA_API size_t tessera_artifact_num_steps(const tessera_artifact* artifact);
TESSERA_API tessera_status tessera_artifact_step(const tessera_artifact* artifact, size_t index,
                                                 tessera_step_info* info);

/* Memory of an artifact in bytes: weights are mapped and shared, all else is per session. */
typedef struct {
  int64_t weights_bytes;
  int64_t arena_bytes;     /* intermediates, for the largest variant, at the greatest sizes of its ranges */
  int64_t workspace_bytes; /* of one step, shared by its threads */
  int64_t scratch_bytes;   /* per thread */
} tessera_memory_info;

TESSERA_API tessera_status tessera_artifact_memory(const tessera_artifact* artifact, tessera_memory_info* info);

/* Bytes of the artifact's prepared weights. A prepared weight takes more bytes in memory than in the file: a filter in
 * a transformed domain, for example. The artifact's first session computes them, and all sessions share them. */
TESSERA_API int64_t tessera_artifact_prepared_bytes(const tessera_artifact* artifact);

/* ---- Variants ---- An artifact may contain several specializations of its model, for different input shapes. They
 * have the same inputs and outputs by name and element type, in the same order; shapes, sizes and steps differ. The
 * functions above describe variant 0, the only one of most artifacts: programs for such artifacts need nothing of this
 * section. */

enum { TESSERA_MAX_VARIANTS = 64 };

typedef struct {
  size_t num_dimensions; /* symbolic dimensions of the model that are bound here */
  size_t num_steps;
  int64_t arena_bytes;
  int64_t flops;
} tessera_variant_info;

/* A dimension that the model names, e.g. "batch", with its size. A negative size -n is a range with greatest size n. */
typedef struct {
  const char* name;
  int64_t size;
} tessera_dimension;

/* At least 1. */
TESSERA_API size_t tessera_artifact_num_variants(const tessera_artifact* artifact);
/* Fail with INVALID_ARGUMENT when an index is out of range. */
TESSERA_API tessera_status tessera_artifact_variant(const tessera_artifact* artifact, size_t variant,
                                                    tessera_variant_info* info);
TESSERA_API tessera_status tessera_artifact_variant_dimension(const tessera_artifact* artifact, size_t variant,
                                                              size_t index, tessera_dimension* dimension);
TESSERA_API tessera_status tessera_artifact_variant_input(const tessera_artifact* artifact, size_t variant,
                                                          size_t index, tessera_tensor_info* info);
TESSERA_API tessera_status tessera_artifact_variant_output(const tessera_artifact* artifact, size_t variant,
                                                           size_t index, tessera_tensor_info* info);
TESSERA_API tessera_status tessera_artifact_variant_step(const tessera_artifact* artifact, size_t variant, size_t index,
                                                         tessera_step_info* info);

/* The shape of an input: `rank` sizes, outermost first; rank -1 if it is unknown. */
typedef struct {
  const int64_t* extents;
  int32_t rank;
} tessera_shape;

/* Finds the variant with these input shapes (one per input, in order; none at all: unknown) and these dimensions; among
 * variants that differ in their ranges only, the smallest that is large enough. Fails with INVALID_ARGUMENT, listing
 * all variants, when none or several match. */
TESSERA_API tessera_status tessera_artifact_find_variant(const tessera_artifact* artifact, const tessera_shape* inputs,
                                                         size_t num_inputs, const tessera_dimension* dimensions,
                                                         size_t num_dimensions, size_t* variant);

/* Completes the sizes of a run: `sizes` has those of the variant's dimensions, in order, negative if unknown. An
 * unknown range gets the variant's greatest size, except ranges whose size follows from others by their names ("past +
 * 1"), which get that size. Fails with INVALID_ARGUMENT if no size follows ("N/2" of 3). */
TESSERA_API tessera_status tessera_artifact_complete_sizes(const tessera_artifact* artifact, size_t variant,
                                                           int64_t* sizes, size_t num_dimensions);

/* ---- Sessions ---- */

typedef struct tessera_session tessera_session;

enum { TESSERA_MAX_THREADS = 1024 };

/* Prepares runs with `threads` threads, 1 to TESSERA_MAX_THREADS; the thread that calls run is one of them, so 1 starts
 * none. The first session of an artifact also computes its prepared weights (tessera_artifact_prepared_bytes) with
 * them; a concurrent call waits for that. Fails with INVALID_ARGUMENT, OUT_OF_MEMORY or IO_ERROR (no more threads). */
TESSERA_API tessera_status tessera_session_create(const tessera_artifact* artifact, int threads,
                                                  tessera_session** session);

/* Replaces the artifact for all runs that begin after this call, by a newer or an earlier version of the same model.
 * Any thread may call it at any time: a run in progress ends with the artifact that it began with, and the lengthy
 * preparation happens before anything changes. Inputs and outputs must have the same names, types and shapes in each
 * variant; the selected variant is kept. Tensor descriptions returned by the session earlier are valid as long as the
 * old artifact. Fails with INVALID_ARGUMENT (different tensors), or as tessera_session_create; the session is then
 * unchanged. */
TESSERA_API tessera_status tessera_session_replace(tessera_session* session, const tessera_artifact* artifact);

/* Null is allowed. Must not be called during a run. */
TESSERA_API void tessera_session_destroy(tessera_session* session);

/* A session of an artifact with several variants runs the selected one, at first variant 0; its memory is sized for the
 * largest. Selecting another one neither allocates nor touches memory. Fails with INVALID_ARGUMENT (as
 * tessera_artifact_find_variant; the selection is then unchanged) or BUSY. */
TESSERA_API tessera_status tessera_session_set_input_shapes(tessera_session* session, const tessera_shape* inputs,
                                                            size_t num_inputs);
TESSERA_API tessera_status tessera_session_set_variant(tessera_session* session, size_t variant);
TESSERA_API size_t tessera_session_variant(const tessera_session* session);
/* Inputs and outputs of the selected variant. */
TESSERA_API tessera_status tessera_session_input(const tessera_session* session, size_t index,
                                                 tessera_tensor_info* info);
TESSERA_API tessera_status tessera_session_output(const tessera_session* session, size_t index,
                                                  tessera_tensor_info* info);

/* The caller's memory for one tensor: `size_bytes` must be the tensor's (for an input with ranges that of the run's
 * sizes or of the variant's: tessera_artifact_ranged_dims), and `data` must be aligned to its element. Alignment to 64
 * bytes is slightly faster. */
typedef struct {
  const void* data;
  size_t size_bytes;
} tessera_const_buffer;
typedef struct {
  void* data;
  size_t size_bytes;
} tessera_buffer;

/* Runs the selected variant of the model once. Buffers are in the order of the artifact's inputs and outputs; no output
 * may overlap another buffer. {NULL, 0} leaves out an input for which tessera_artifact_default_input returns a value.
 * Returns when the outputs are written. An output with bounded dimensions receives its elements densely for the extents
 * of this run; bytes after them in its buffer are undefined. Fails with INVALID_ARGUMENT (nothing was written), BUSY,
 * CORRUPT (the code computed an impossible extent), or RUN_FAULT: the model has no results for these inputs, and the
 * outputs are meaningless. Such a run takes as long as any other. */
TESSERA_API tessera_status tessera_session_run(tessera_session* session, const tessera_const_buffer* inputs,
                                               size_t num_inputs, const tessera_buffer* outputs, size_t num_outputs);

/* Stores the extents of an output in dims[0 .. rank): those of the latest run of the session's variant, or the upper
 * bounds before the first run. Must not be called during a run. Fails with INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_session_output_shape(const tessera_session* session, size_t index, int64_t* dims);

/* The share of the variant's operations that the latest run computed: 1, or less if the run had fewer rows of a range
 * and loops over them were shortened. Must not be called during a run. */
TESSERA_API double tessera_session_work(const tessera_session* session);

/* Like tessera_artifact_memory, for the session's selected variant. arena_bytes is the memory of the layout that the
 * latest run used; with ranges, that layout may have been made for an earlier, larger run. Before the first run it is
 * the memory for the greatest sizes. Must not be called during a run. Fails with INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_session_memory(const tessera_session* session, tessera_memory_info* info);

/* Like tessera_session_run; also stores the wall-clock time of each step in nanoseconds in step_ns[0 .. num_steps) of
 * the selected variant. Reading the clock costs about 50 ns per step. */
TESSERA_API tessera_status tessera_session_profile(tessera_session* session, const tessera_const_buffer* inputs,
                                                   size_t num_inputs, const tessera_buffer* outputs, size_t num_outputs,
                                                   int64_t* step_ns, size_t num_steps);

/* ---- State ---- An artifact compiled with --state keeps values from one run to the next, such as the keys and values
 * of a decoder: an output of the model is the value of an input in the next run. A tessera_state holds these values for
 * one stream of runs. Any number of states may be used with one session, in turn, and a state with any session of an
 * artifact that has the same states.
 *
 *   tessera_state_create(artifact, &state);
 *   tessera_session_run_state(session, state, inputs, n_in, outputs, n_out);  // state's own tensors: {NULL, 0}
 *   tessera_state_save(state, "chat.safetensors");
 *
 * A growing state has a dimension along which each run appends rows; it has none at first. If the artifact has steps
 * for it (tessera_state_info.appends), a run copies its new rows only. */

typedef struct tessera_state tessera_state;

typedef struct {
  const char* name; /* the input's, valid as long as the artifact */
  size_t input;     /* indices of the pair */
  size_t output;
  int32_t growing_dim; /* -1: the state has a fixed size */
  int32_t appends;     /* 1: a run moves new rows only, in every variant */
  int64_t capacity;    /* of a growing state: most rows before a run, in the largest variant; otherwise 0 */
} tessera_state_info;

/* 0 if the artifact has no state; it may then have no tessera_state. */
TESSERA_API size_t tessera_artifact_num_states(const tessera_artifact* artifact);
/* Fails with INVALID_ARGUMENT when the index is out of range. */
TESSERA_API tessera_status tessera_artifact_state(const tessera_artifact* artifact, size_t index,
                                                  tessera_state_info* info);

/* Initial values: those of inputs with a default value, otherwise zeros; growing states have no rows. Memory is touched
 * as it is used. On success the caller must pass *state to tessera_state_destroy; the artifact may be destroyed before.
 * Fails with INVALID_ARGUMENT (the artifact has no state) or OUT_OF_MEMORY. */
TESSERA_API tessera_status tessera_state_create(const tessera_artifact* artifact, tessera_state** state);
/* Null is allowed. Must not be called during a run. */
TESSERA_API void tessera_state_destroy(tessera_state* state);
/* Sets the initial values again. Fails with INVALID_ARGUMENT or BUSY (a run uses the state). */
TESSERA_API tessera_status tessera_state_reset(tessera_state* state);

/* Stores the extents of a value in dims[0 .. rank of its input); -1 for those that the first run decides: sizes of
 * ranges, and those that differ between variants. */
TESSERA_API tessera_status tessera_state_shape(const tessera_state* state, size_t index, int64_t* dims);
/* Copies a value densely to `data`; `size_bytes` must be that of its shape. Fails with INVALID_ARGUMENT or BUSY. */
TESSERA_API tessera_status tessera_state_get(const tessera_state* state, size_t index, void* data, size_t size_bytes);
/* Replaces a value by a dense tensor, whose shape must be possible for its input. Fails with INVALID_ARGUMENT or BUSY.
 */
TESSERA_API tessera_status tessera_state_set(tessera_state* state, size_t index, const int64_t* dims, int32_t rank,
                                             const void* data, size_t size_bytes);

/* Writes all values to a file in the safetensors format, named as the inputs; the file appears completely or not at
 * all. tessera_state_load replaces all values, or none if it fails: IO_ERROR; CORRUPT: no such file, or one cut off;
 * INVALID_ARGUMENT: a tensor that the state does not have, or lacks, or of another type or an impossible shape; BUSY.
 */
TESSERA_API tessera_status tessera_state_save(const tessera_state* state, const char* path);
TESSERA_API tessera_status tessera_state_load(tessera_state* state, const char* path);

/* Like tessera_session_run, with the state's values. {NULL, 0} leaves out the state's inputs and outputs, which is
 * required, and sizes of ranges that follow from the state or from other sizes. Afterwards the state has its new
 * values; it keeps the old ones if the run fails. Also fails with INVALID_ARGUMENT if a growing state is full, or if
 * the sizes of the run differ from the state's; with BUSY if another run uses the state. */
TESSERA_API tessera_status tessera_session_run_state(tessera_session* session, tessera_state* state,
                                                     const tessera_const_buffer* inputs, size_t num_inputs,
                                                     const tessera_buffer* outputs, size_t num_outputs);

/* ---- Finding faults in generated code ---- */

/* A kernel that accesses memory outside of its operands is a bug of the compiler. From now on a SIGSEGV, SIGBUS, SIGILL
 * or SIGFPE in generated code, in any session and thread, is reported as one sentence that names the kernel ("SIGSEGV
 * in kernel w3 (step 4: conv1+relu), phase 1, grid [0, 16)") to `ended`, or on standard error if that is null. `ended`
 * runs in the signal handler of that thread, on a stack of about 60 KiB; since generated code calls no function, it may
 * call any, but must not wait for other threads of the run. When it returns, the signal is passed to the handler
 * installed before this call, which by default ends the process. A further call replaces `ended`. */
TESSERA_API void tessera_report_faults(void (*ended)(const char* sentence));

typedef enum {
  TESSERA_GUARD_FRONT = 0, /* the first byte of each buffer directly follows an inaccessible page */
  TESSERA_GUARD_BACK = 1   /* the last byte is as close before one as the alignment allows */
} tessera_guard;

/* Like tessera_session_run, for finding such a kernel: each operand of each step, its workspace and the scratch of each
 * thread is in separate memory between inaccessible pages, filled with a pattern first, and only results are writable.
 * An access outside faults at once; a write into the up to 63 bytes of alignment padding at the back, or into the rest
 * of a page at the other end, makes the run fail with OUT_OF_BOUNDS after the step, which the error names. Run it with
 * both guards: outputs that differ depend on uninitialized memory. Allocates, copies every operand of every step, and
 * takes about ten times as long. */
TESSERA_API tessera_status tessera_session_run_guarded(tessera_session* session, const tessera_const_buffer* inputs,
                                                       size_t num_inputs, const tessera_buffer* outputs,
                                                       size_t num_outputs, tessera_guard guard);

#ifdef __cplusplus
}
#endif
#endif /* TESSERA_COMPILER_RUNTIME_TESSERA_H_ */
