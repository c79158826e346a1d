/* The interface between generated code and the runtime: the tables that code.so of an artifact exports.
 *
 * code.so has one symbol, `tessera_module_v1`, a constant tessera_module. It has no other dynamic symbols and no
 * constructors, needs no other library and does not allocate. Everything is position independent and read-only after
 * relocation. assemble() writes these tables, libtessera_rt reads them; a change of any struct here must increment
 * TESSERA_MODULE_ABI. The symbol keeps its name, so that an older runtime finds it and can name the version it lacks.
 */
#ifndef TESSERA_COMPILER_RUNTIME_MODULE_ABI_H_
#define TESSERA_COMPILER_RUNTIME_MODULE_ABI_H_

#include <stdint.h>

#define TESSERA_MODULE_ABI 12
#define TESSERA_MODULE_SYMBOL "tessera_module_v1"
#define TESSERA_BUFFER_ALIGNMENT 64

#ifdef __cplusplus
extern "C" {
#endif

/* One phase of one workload over the range [lo, hi) of its grid.
 *   operands   the step's buffers, arguments first, results last; each 64-byte aligned
 *              (inputs and outputs of the caller may be aligned to their element only)
 *   workspace  shared by all threads of the step, kept from phase to phase
 *   scratch    private to the calling thread, undefined at entry
 * Disjoint ranges of one phase may run concurrently; phases are separated by barriers. */
typedef void (*tessera_kernel_fn)(void* const* operands, int64_t lo, int64_t hi, void* workspace, void* scratch);

typedef struct {
  const char* name;
  int32_t dtype; /* number of tessera.v1.DataType */
  int32_t rank;
  const int64_t* shape; /* rank elements */
  int64_t size_bytes;
  /* For an input: rank elements, the variant's dimension (a range) that determines each extent, -1: none; null if all
   * are -1. */
  const int32_t* ranges;
} tessera_module_tensor;

enum {
  TESSERA_BUFFER_INPUT = 1,    /* index = position in inputs */
  TESSERA_BUFFER_OUTPUT = 2,   /* index = position in outputs */
  TESSERA_BUFFER_WEIGHT = 3,   /* offset in the weights section */
  TESSERA_BUFFER_ARENA = 4,    /* offset in the arena; index = position in allocations, where the variant has any */
  TESSERA_BUFFER_PREPARED = 5, /* index = position in the preparation's outputs; offset within it */
  TESSERA_BUFFER_LOOP = 6      /* set by a loop, another address in each iteration; index = position in loops */
};

typedef struct {
  int32_t kind;
  int32_t index;
  int64_t offset; /* bytes, a multiple of 64 */
  int64_t size_bytes;
} tessera_module_buffer;

typedef struct {
  tessera_kernel_fn fn;
  int64_t grid; /* at least 1 */
} tessera_module_phase;

/* Bounds a phase's grid by the rows of a run. The grid is an array of cells [outer][count][inner]: `count` is the
 * number of iterations of one grid dimension, `inner` the number of cells of one iteration. A run of n rows of a range
 * needs only the first min(count, ceil(n * numerator / denominator) + slack) iterations; the others write padding only.
 * For example, 64 rows in tiles of 4 rows, with 8 tiles of columns each, have count 16, inner 8, numerator 1,
 * denominator 4 and slack 0: a run of 10 rows needs 3 iterations, 24 of 128 cells. If several ranges share the
 * dimension, such as height and width of pixels, n is the product of their sizes. */
typedef struct {
  int32_t phase;   /* of the step */
  uint32_t ranges; /* bits: dimensions of the variant */
  int64_t count, inner;
  int64_t numerator, denominator, slack;
} tessera_module_grid_bound;

/* The effect of a grid bound on the bytes that a phase writes: min(most, bytes * ceil(k * numerator / denominator)),
 * where k is the number of iterations that the bound leaves. */
typedef struct {
  int32_t grid_bound; /* position in the step's grid_bounds */
  int32_t reserved;
  int64_t numerator, denominator;
  int64_t bytes, most;
} tessera_module_write_bound_term;

/* The phase writes no byte of a result at or after base + sum(terms). If a result has several such entries, the largest
 * bound holds; a result without one may be written to its end. */
typedef struct {
  int32_t operand; /* of the step; a result */
  int32_t num_terms;
  int64_t base;
  const tessera_module_write_bound_term* terms;
} tessera_module_write_bound;

typedef struct {
  const char* name;   /* originating graph nodes */
  const char* symbol; /* the workload's */
  const tessera_module_phase* phases;
  int32_t num_phases;
  int32_t num_operands;
  const int32_t* operands; /* indices into buffers */
  int64_t flops;
  int64_t workspace_bytes; /* of these phases; at most the module's */
  int64_t scratch_bytes;
  int32_t num_results; /* the last operands: written completely, not read before; all other operands are only read */
  int32_t num_grid_bounds;
  const tessera_module_grid_bound*
      grid_bounds; /* ascending by phase; within one phase each is inside a step of the one before */
  const tessera_module_write_bound* write_bounds; /* ascending by operand */
  int32_t num_write_bounds;
  int32_t reserved;
} tessera_module_step;

/* An allocation of the arena, whose bytes are needed from step `first` to step `last` (the number of steps: until the
 * run ends). If a run writes only the leading bytes of its allocations, these may be packed more densely: at any
 * multiples of 64, provided that no two allocations alive in one step share a byte that either writes. */
typedef struct {
  int64_t offset, size_bytes; /* for a run that writes everything */
  int32_t first, last;
} tessera_module_allocation;

/* A value that each iteration passes to the next one. The first iteration reads `initial`; iterations write `result`
 * and `spare` alternately, so that none overwrites the value it reads; after the last iteration the value is in
 * `result`. All buffers have the same size. */
typedef struct {
  int32_t initial;
  int32_t before, after; /* read and written by the body; of kind LOOP, in no other entry */
  int32_t result, spare;
} tessera_module_carried;

/* A buffer from which each iteration reads, or to which it writes, one part; parts of part.size_bytes follow each
 * other. */
typedef struct {
  int32_t whole;
  int32_t part;     /* of kind LOOP, in no other entry */
  int32_t written;  /* 0 or 1 */
  int32_t reversed; /* 0 or 1: the first iteration uses part max_iterations - 1 */
} tessera_module_scan;

/* Steps [first_step, last_step) run repeatedly. Two loops are nested or disjoint; a LOOP buffer is used within its loop
 * only. Buffers are positions in the variant's buffers; -1: none. */
typedef struct {
  int32_t first_step, last_step;
  int64_t max_iterations;    /* 0: no bound, and nothing is scanned */
  int32_t trip_count;        /* one i64, read before the first iteration */
  int32_t initial_condition; /* one byte, 0 or 1, read before the first iteration */
  int32_t condition;         /* one byte, 0 or 1, that the body writes */
  int32_t iteration;         /* one i64, written before each iteration */
  int32_t executed;          /* one i64, written after the last iteration */
  int32_t num_carried;
  const tessera_module_carried* carried;
  const tessera_module_scan* scans;
  int32_t num_scans;
  int32_t reserved;
} tessera_module_loop;

/* An input that a run may leave out, with its value in that case. If the value was compiled in because shapes depend on
 * it, a run must not give another one. (A library that does not know `may_differ` refuses other values too.) */
typedef struct {
  int32_t input;
  int32_t may_differ; /* 1: the value is a default; 0: it was compiled in */
  const void* data;
  int64_t size_bytes; /* the input's */
} tessera_module_fixed_input;

/* A dimension of an output whose extent a step computes: after a run `buffer` holds it, an i64 between 0 and the
 * dimension's entry in `shape`. The output's elements are laid out for `shape`; the runtime packs them. */
typedef struct {
  int32_t output;
  int32_t dimension;
  int32_t buffer;
  int32_t reserved;
} tessera_module_extent;

/* A symbolic dimension of the model with its size. A negative size -n is a range: each run has a size from 0 to n, or
 * exactly 1 if n is 1 and the name is no formula. A dimension is a range in all variants of an artifact or in none. A
 * range whose name is a formula of other dimensions, such as "past + 1", has that size in every run
 * (ir/dimension_formula.h). Each range has an input of its name after the model's own inputs, a scalar i64, in the
 * order of the dimensions: the number of elements that count along the dimensions of that range in this run. */
typedef struct {
  const char* name;
  int64_t size;
} tessera_module_dimension;

/* Sizes of a range that the model does not support, such as an image smaller than a window: a run with `first` to
 * `last` elements along it is refused, unless the size is a multiple of `multiple`. */
typedef struct {
  int32_t dimension; /* of the variant; a range */
  int32_t reserved;
  int64_t first, last;
  int64_t multiple; /* 0: no multiple is accepted */
  const char* reason;
} tessera_module_refused_sizes;

/* An output whose value is an input of the next run. It has the input's shape, except along `growing_dim` (-1: none),
 * where the input's extent is a range and the output has more rows: those of the input, then new ones.
 * `rows_step` (-1: there are no such steps) computes the new rows alone, as its only result, laid out as the output
 * with fewer rows; only runs with a state execute it. `concat_step` computes the output from the input and the new
 * rows; a run with a state copies the rows into the state's memory instead. No other step reads the input. The steps of
 * `identity_steps` have one result: the output with zeros after its last row; runs with a state skip them, and the
 * state's memory takes the place of the result, in which no other step writes. */
typedef struct {
  int32_t input, output; /* of the model */
  int32_t growing_dim;
  int32_t rows_step, concat_step;
  int32_t num_identity_steps;
  const int32_t* identity_steps; /* ascending */
} tessera_module_state;

/* The model for one set of input shapes. Names and element types of inputs and outputs are the same in all variants; no
 * two variants have the same input shapes. */
typedef struct {
  const tessera_module_dimension* dimensions; /* in the order in which the model's inputs name them */
  const tessera_module_tensor* inputs;        /* tessera_module.num_inputs of them */
  const tessera_module_tensor* outputs;       /* tessera_module.num_outputs of them */
  const tessera_module_buffer* buffers;
  const tessera_module_step* steps;
  const tessera_module_extent* extents; /* ascending by output, then dimension */
  const tessera_module_refused_sizes* refused_sizes;
  const tessera_module_allocation*
      allocations;                  /* of a variant with ranges; none: every buffer is at its offset in `buffers` */
  const tessera_module_loop* loops; /* by first step; among loops with the same first step the outer one first */
  /* Errors that steps find. After a run `fault_buffer` holds an i64: 0, or k if the run is the error
   * fault_messages[k - 1]. Without messages there is no such buffer. */
  const char* const* fault_messages;
  const tessera_module_state* states; /* the same inputs and outputs in every variant */
  int32_t num_dimensions;
  int32_t num_buffers;
  int32_t num_steps;
  int32_t num_extents;
  int32_t num_refused_sizes;
  int32_t num_allocations;
  int32_t num_loops;
  int32_t num_fault_messages;
  int32_t fault_buffer;
  int32_t num_states;
  int64_t arena_bytes; /* one per concurrent run, for the greatest sizes */
} tessera_module_variant;

typedef struct tessera_module {
  uint32_t abi_version; /* TESSERA_MODULE_ABI, first in every version */
  int32_t num_variants; /* 1 to TESSERA_MAX_VARIANTS */
  const char* compiler_version;
  const char* triple;
  const char* features; /* LLVM features the host must have, separated by spaces */
  int32_t num_inputs;
  int32_t num_outputs;
  const tessera_module_variant* variants;
  int64_t workspace_bytes; /* one per concurrent run, enough for any variant */
  int64_t scratch_bytes;   /* one per thread of a run */
  int64_t weights_bytes;   /* one section for all variants */
  int32_t num_fixed_inputs;
  int32_t reserved;
  const tessera_module_fixed_input* fixed_inputs; /* ascending by input; of every variant */
  /* Computes weights before the first run: a module with one variant and no inputs whose outputs are the prepared
   * weights of all variants; it has no preparation itself. Null: there are none. */
  const struct tessera_module* preparation;
} tessera_module;

#ifdef __cplusplus
}
#endif
#endif /* TESSERA_COMPILER_RUNTIME_MODULE_ABI_H_ */
