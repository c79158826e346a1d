/* libtessera_rt: loads and runs compiled models.
 *
 *   tessera_artifact* artifact;
 *   tessera_session* session;
 *   if (tessera_artifact_load("model.tsra", 0, &artifact) != TESSERA_OK) puts(tessera_last_error());
 *   tessera_session_create(artifact, 1, &session);
 *   tessera_session_run(session, inputs, n_in, outputs, n_out);
 *
 * Threads: an artifact is immutable; any number of threads and sessions may use one. A session is one run at
 * a time with its own intermediates and threads; two runs at once need two sessions.
 * Memory: a session allocates when it is created and its pages are touched by its first run; later runs
 * neither allocate nor take locks of the C library.
 * Trust: an artifact holds native code. Its tables are checked before use, its code is not and cannot be: this library
 * holds no keys. Whoever calls it knows the file, or has checked its signature on the descriptor that
 * tessera_artifact_load_fd then loads (C++: clients/cpp/trust.h; Python and the command line do so by themselves);
 * artifacts of unknown origin are for `tessera run --sandbox`. The file must not change while it is loaded.
 * Loading uses openat, mmap, memfd_create and dlopen; running uses futex and no other system call.
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
  TESSERA_INVALID_ARGUMENT = 1, /* a null pointer, a size or an alignment that does not fit */
  TESSERA_IO_ERROR = 2,         /* the operating system refused: file, memory mapping, thread */
  TESSERA_CORRUPT = 3,          /* not an artifact, truncated, a checksum or a table that does not hold */
  TESSERA_INCOMPATIBLE = 4,     /* made for another architecture, or needs CPU features this host lacks */
  TESSERA_OUT_OF_MEMORY = 5,
  TESSERA_BUSY = 6,         /* the session is running already */
  TESSERA_OUT_OF_BOUNDS = 7 /* a guarded run: a kernel wrote outside of its memory */
} tessera_status;

/* What went wrong in this thread's latest call that failed: one sentence, valid until the next one. Never null. */
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
  /* Also check the weights' checksum: reads them all, about a second per 2 GiB. Code and tables always are. */
  TESSERA_VERIFY_WEIGHTS = 1
};

/* Loads an artifact file. On success *artifact must be given to tessera_artifact_destroy.
 * Fails with IO_ERROR, CORRUPT, INCOMPATIBLE (before any code of it is mapped) or OUT_OF_MEMORY. */
TESSERA_API tessera_status tessera_artifact_load(const char* path, uint32_t flags, tessera_artifact** artifact);

/* The same for an open file; `fd` stays the caller's and may be closed afterwards. */
TESSERA_API tessera_status tessera_artifact_load_fd(int fd, uint32_t flags, tessera_artifact** artifact);

/* The same for a file in memory, which must stay unchanged until the artifact is destroyed. Weights are used
 * in place when they lie at a multiple of 64, which they do when `data` does; else they are copied. */
TESSERA_API tessera_status tessera_artifact_load_memory(const void* data, size_t size, uint32_t flags,
                                                        tessera_artifact** artifact);

/* Null is allowed. Sessions of the artifact keep what they need of it and stay usable. */
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

/* The value an input was fixed to when the model was compiled, `size_bytes` of it; null when it may have any.
 * A run with another value fails with INVALID_ARGUMENT. Lives as long as the artifact. */
TESSERA_API const void* tessera_artifact_fixed_input(const tessera_artifact* artifact, size_t index);

/* The value of an input that a run leaves out, `size_bytes` of it: a default of the model, or what the input was fixed
 * to. Null when every run must give it. Lives as long as the artifact. */
TESSERA_API const void* tessera_artifact_default_input(const tessera_artifact* artifact, size_t index);

/* Dimensions of an output whose extent depends on the data (how many boxes were found): bit d stands for
 * dimension d. tessera_artifact_output gives their upper bounds, and the size for those; the extents of a run are
 * tessera_session_output_shape's. Of several variants: bounded in any. 0 when the index is out of range. */
TESSERA_API uint64_t tessera_artifact_bounded_dims(const tessera_artifact* artifact, size_t index);

/* Dimensions of an input that were compiled as ranges, "batch=1..64": bit d stands for dimension d. For each range one
 * of the artifact's last inputs, an i64 with the range's name, says how much of it a run has: 0 to the greatest size of
 * the variant. The input's buffer is dense, of the sizes that the run has, and is copied; or it is laid out for the
 * greatest sizes of the variant, and read where it is: what follows the run's own elements then may be read, and
 * changes no result; it should be finite, 0 say. Outputs have their extents by tessera_session_output_shape. 0 when the
 * index is out of range. */
TESSERA_API uint64_t tessera_artifact_ranged_dims(const tessera_artifact* artifact, size_t index);
/* Which of the variants' dimensions (tessera_artifact_variant_dimension) a dimension of an input follows as a range;
 * -1: none. */
TESSERA_API int32_t tessera_artifact_range_of(const tessera_artifact* artifact, size_t index, size_t dimension);

/* Steps run one after another; each is one fused group of the model. */
typedef struct {
  const char* name;   /* graph nodes it stems from */
  const char* symbol; /* of its kernel; equal workloads share one */
  int32_t num_phases;
  int64_t max_grid; /* of its phases: how many ways it can be split over threads */
  int64_t flops;
} tessera_step_info;

TESSERA_API size_t tessera_artifact_num_steps(const tessera_artifact* artifact);
TESSERA_API tessera_status tessera_artifact_step(const tessera_artifact* artifact, size_t index,
                                                 tessera_step_info* info);

/* Bytes an artifact takes: weights are mapped and shared, the rest is per session. */
typedef struct {
  int64_t weights_bytes;
  int64_t arena_bytes;     /* intermediates, of the variant that needs most, at the greatest sizes of its ranges */
  int64_t workspace_bytes; /* of one step, shared by its threads */
  int64_t scratch_bytes;   /* per thread */
} tessera_memory_info;

TESSERA_API tessera_status tessera_artifact_memory(const tessera_artifact* artifact, tessera_memory_info* info);

/* Bytes of the artifact's prepared weights. A prepared weight takes more bytes in memory than in the file: a filter in
 * a transformed domain, for example. The artifact's first session computes them, and all sessions share them. */
TESSERA_API int64_t tessera_artifact_prepared_bytes(const tessera_artifact* artifact);

/* ---- Variants ----
 * An artifact may hold several specialisations of its model, each for other input shapes. They have the same inputs
 * and outputs by name and element type, in the same order; shapes, sizes and steps are their own. The functions above
 * describe variant 0, the only one of most artifacts: a program that runs those needs nothing of this section. */

enum { TESSERA_MAX_VARIANTS = 64 };

typedef struct {
  size_t num_dimensions; /* symbolic dimensions of the model that are bound here */
  size_t num_steps;
  int64_t arena_bytes;
  int64_t flops;
} tessera_variant_info;

/* A dimension that the model names, e.g. "batch", with its size; negative: a range up to so many. */
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

/* The shape of an input: `rank` extents, outermost first; rank -1 where it is not known. */
typedef struct {
  const int64_t* extents;
  int32_t rank;
} tessera_shape;

/* Finds the one variant with these input shapes (one per input, in order; none at all: not known) and these dimensions;
 * of those compiled for a range the smallest that has room.
 * Fails with INVALID_ARGUMENT when none fits, or several do; the error lists what there is. */
TESSERA_API tessera_status tessera_artifact_find_variant(const tessera_artifact* artifact, const tessera_shape* inputs,
                                                         size_t num_inputs, const tessera_dimension* dimensions,
                                                         size_t num_dimensions, size_t* variant);

/* Completes the sizes of a run: `sizes` has those of the variant's dimensions, in order, negative where not known.
 * Ranges that are not known become as large as the variant, but for those that follow from others by their names, as
 * "past + 1" does: no run has other sizes of these. Fails with INVALID_ARGUMENT where none follows ("N/2" of 3). */
TESSERA_API tessera_status tessera_artifact_complete_sizes(const tessera_artifact* artifact, size_t variant,
                                                           int64_t* sizes, size_t num_dimensions);

/* ---- Sessions ---- */

typedef struct tessera_session tessera_session;

enum { TESSERA_MAX_THREADS = 1024 };

/* Prepares runs on `threads` threads, 1 to TESSERA_MAX_THREADS; the thread that calls run is one of them, so
 * 1 starts none. The first session of an artifact also computes its prepared weights (tessera_artifact_prepared_bytes)
 * on them; whoever creates another meanwhile waits for that. Fails with INVALID_ARGUMENT, OUT_OF_MEMORY or IO_ERROR (no
 * more threads). */
TESSERA_API tessera_status tessera_session_create(const tessera_artifact* artifact, int threads,
                                                  tessera_session** session);

/* Lets runs that begin from now on be of another artifact of the same model: a newer version, or, to go back, an
 * earlier one. Any thread may call it at any time: a run in progress ends with the artifact that it began with, and
 * what takes long is done before anything changes. Inputs and outputs must have the same names, types and shapes,
 * variant by variant; the chosen variant stays. Descriptions of tensors that the session gave out live as long as the
 * artifact before. Fails with INVALID_ARGUMENT (other tensors), or as tessera_session_create does, and nothing has
 * changed. */
TESSERA_API tessera_status tessera_session_replace(tessera_session* session, const tessera_artifact* artifact);

/* Null is allowed. Must not be called while the session runs. */
TESSERA_API void tessera_session_destroy(tessera_session* session);

/* Sessions of artifacts with several variants run one of them at a time, at first variant 0; addresses are there for
 * the largest. Choosing another neither allocates nor touches memory. Fail with INVALID_ARGUMENT (as
 * tessera_artifact_find_variant does; the choice stays as it was) or BUSY. */
TESSERA_API tessera_status tessera_session_set_input_shapes(tessera_session* session, const tessera_shape* inputs,
                                                            size_t num_inputs);
TESSERA_API tessera_status tessera_session_set_variant(tessera_session* session, size_t variant);
TESSERA_API size_t tessera_session_variant(const tessera_session* session);
/* Inputs and outputs of the chosen variant. */
TESSERA_API tessera_status tessera_session_input(const tessera_session* session, size_t index,
                                                 tessera_tensor_info* info);
TESSERA_API tessera_status tessera_session_output(const tessera_session* session, size_t index,
                                                  tessera_tensor_info* info);

/* Caller's memory for one tensor: `size_bytes` must be the tensor's (of an input with ranges that of the run's sizes,
 * or the variant's: tessera_artifact_ranged_dims), `data` aligned to its element. Multiples of 64 are a little faster.
 */
typedef struct {
  const void* data;
  size_t size_bytes;
} tessera_const_buffer;
typedef struct {
  void* data;
  size_t size_bytes;
} tessera_buffer;

/* Runs the chosen variant of the model once. Buffers are given in the order of the artifact's inputs and outputs; no
 * output may overlap another buffer. {NULL, 0} leaves out an input that tessera_artifact_default_input has a value of.
 * Returns when the outputs are written. An output with bounded dimensions gets its elements densely for the extents of
 * this run; what follows them in its buffer is undefined. Fails with INVALID_ARGUMENT (nothing was written), BUSY, or
 * CORRUPT (the code computed an impossible extent). */
TESSERA_API tessera_status tessera_session_run(tessera_session* session, const tessera_const_buffer* inputs,
                                               size_t num_inputs, const tessera_buffer* outputs, size_t num_outputs);

/* Puts the extents of an output into dims[0 .. rank): those of the latest run of the session's variant, before the
 * first one the upper bounds. Must not be called while the session runs. Fails with INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_session_output_shape(const tessera_session* session, size_t index, int64_t* dims);

/* What the latest run computed, as a part of the operations of its variant: 1, or less where the run had fewer rows of
 * a range and loops over them ended by that count. Must not be called while the session runs. */
TESSERA_API double tessera_session_work(const tessera_session* session);

/* The same figures for the session's variant as it runs: arena_bytes is what the latest run had its intermediates in,
 * which of a variant with ranges is as much as a run of its size needs, or of a larger one before it. Before the first
 * run as much as any needs. Must not be called while the session runs. Fails with INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_session_memory(const tessera_session* session, tessera_memory_info* info);

/* The same as tessera_session_run, and puts the wall time of each step in nanoseconds into step_ns[0 .. num_steps) of
 * the chosen variant.
 * Reading the clock costs about 50 ns a step. */
TESSERA_API tessera_status tessera_session_profile(tessera_session* session, const tessera_const_buffer* inputs,
                                                   size_t num_inputs, const tessera_buffer* outputs, size_t num_outputs,
                                                   int64_t* step_ns, size_t num_steps);

/* ---- Finding faults in generated code ---- */

/* A kernel that steps outside of its memory is a fault of the compiler. From now on a SIGSEGV, SIGBUS, SIGILL or SIGFPE
 * in generated code, of any session and thread, is told as one sentence that names the kernel ("SIGSEGV in kernel w3
 * (step 4: conv1+relu), phase 1, grid [0, 16)") to `ended`, or to standard error when that is null. `ended` runs in the
 * signal handler of that thread, on a stack of some 60 KiB; since generated code calls no function, it may call any,
 * but must not wait for other threads of the run. When it returns, the signal goes on to the handler that was there
 * before this call, which by default ends the process. Call it again to change `ended`. */
TESSERA_API void tessera_report_faults(void (*ended)(const char* sentence));

typedef enum {
  TESSERA_GUARD_FRONT = 0, /* the first byte of each lies right behind an unreadable page */
  TESSERA_GUARD_BACK = 1   /* the last one as close before one as its alignment allows */
} tessera_guard;

/* The same as tessera_session_run, for finding such a kernel: each operand of each step, its workspace and the scratch
 * of each thread is memory of its own between unreadable pages, filled with a pattern first, and only results may be
 * written. What reads or writes outside is a fault at once; what writes into the up to 63 bytes that alignment leaves
 * at the back, or the rest of a page at the other end, makes the run fail with OUT_OF_BOUNDS after the step, named. Run
 * it with both guards: outputs that are not equal depend on memory nobody wrote. Allocates, copies every operand of
 * every step, and takes about ten times as long. */
TESSERA_API tessera_status tessera_session_run_guarded(tessera_session* session, const tessera_const_buffer* inputs,
                                                       size_t num_inputs, const tessera_buffer* outputs,
                                                       size_t num_outputs, tessera_guard guard);

#ifdef __cplusplus
}
#endif
#endif /* TESSERA_COMPILER_RUNTIME_TESSERA_H_ */
