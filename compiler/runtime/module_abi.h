/* The border between generated code and the runtime: what code.so of an artifact exports.
 *
 * code.so has one symbol, `tessera_module_v1`, a constant tessera_module. It has no other dynamic
 * symbols, no constructors, needs no other library and does not allocate. Everything is position
 * independent and read-only after relocation. assemble() writes these tables, libtessera_rt reads
 * them; a change of any struct here raises TESSERA_MODULE_ABI. The symbol's name stays: an older
 * runtime finds it and says which version it lacks.
 */
#ifndef TESSERA_COMPILER_RUNTIME_MODULE_ABI_H_
#define TESSERA_COMPILER_RUNTIME_MODULE_ABI_H_

#include <stdint.h>

#define TESSERA_MODULE_ABI 10
#define TESSERA_MODULE_SYMBOL "tessera_module_v1"
#define TESSERA_BUFFER_ALIGNMENT 64

#ifdef __cplusplus
extern "C" {
#endif

/* One phase of one workload over the range [lo, hi) of its grid.
 *   operands   the step's buffers, arguments first, results last; each 64-byte aligned
 *              (inputs and outputs of the caller may be aligned to their element only)
 *   workspace  shared by every thread of the step, kept from phase to phase
 *   scratch    private to the calling thread, undefined at entry
 * Disjoint ranges of one phase may run concurrently; phases are separated by barriers. */
typedef void (*tessera_kernel_fn)(void* const* operands, int64_t lo, int64_t hi, void* workspace, void* scratch);

typedef struct {
  const char* name;
  int32_t dtype; /* number of tessera.v1.DataType */
  int32_t rank;
  const int64_t* shape; /* rank elements */
  int64_t size_bytes;
  /* Of an input: rank elements, the variant's dimension (a range) that each of its dimensions follows, -1: none; null
   * where all are -1. */
  const int32_t* ranges;
} tessera_module_tensor;

enum {
  TESSERA_BUFFER_INPUT = 1,    /* index = position in inputs */
  TESSERA_BUFFER_OUTPUT = 2,   /* index = position in outputs */
  TESSERA_BUFFER_WEIGHT = 3,   /* offset in the weights section */
  TESSERA_BUFFER_ARENA = 4,    /* offset in the arena; index = position in places, where the variant has any */
  TESSERA_BUFFER_PREPARED = 5, /* index = position in the preparation's outputs; offset within it */
  TESSERA_BUFFER_LOOP = 6      /* where a loop says, another place in each iteration; index = position in loops */
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

/* A phase whose grid is [outer][count][inner] for a level of which a run of n rows of a range needs the first
 * min(count, ceil(n * numerator / denominator) + slack) only: the rest writes rows that do not count. Of several
 * ranges, such as height and width of pixels that lie in one dimension, n is the product. */
typedef struct {
  int32_t phase;   /* of the step */
  uint32_t ranges; /* bits: dimensions of the variant */
  int64_t count, inner;
  int64_t numerator, denominator, slack;
} tessera_module_cut;

/* What a cut has to do with how far a phase writes: min(most, bytes * ceil(k * numerator / denominator)) of it, k the
 * steps that are left of the cut's level. */
typedef struct {
  int32_t cut; /* of the step */
  int32_t reserved;
  int64_t numerator, denominator;
  int64_t bytes, most;
} tessera_module_reach_term;

/* A run writes nothing of a result from byte base + the sum of the terms on. Of a result that has several of these
 * nothing from the farthest on; one that has none may be written to its end. */
typedef struct {
  int32_t operand; /* of the step; a result */
  int32_t num_terms;
  int64_t base;
  const tessera_module_reach_term* terms;
} tessera_module_reach;

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
  int32_t num_results; /* the last operands: written completely, not read before; the others are only read */
  int32_t num_cuts;
  const tessera_module_cut* cuts;      /* ascending by phase; of one phase each within a step of the one before */
  const tessera_module_reach* reaches; /* ascending by operand */
  int32_t num_reaches;
  int32_t reserved;
} tessera_module_step;

/* A part of the arena whose bytes are needed from step `first` to step `last` (the number of steps: until the run
 * ends). Where a run writes but the front of its places, they may lie closer together: at any multiples of 64, as long
 * as no two that are alive in one step share a byte that either writes. */
typedef struct {
  int64_t offset, size_bytes; /* of a run that writes all */
  int32_t first, last;
} tessera_module_place;

/* A value that each iteration hands on to the next. The first one reads `initial`; each writes where the one before it
 * did not, to `result` and `spare` in turns; behind the last one the value is in `result`. All of one size. */
typedef struct {
  int32_t initial;
  int32_t before, after; /* what the body reads and what it writes; of kind LOOP, in no other entry */
  int32_t result, spare;
} tessera_module_carried;

/* A buffer of which each iteration reads or writes one part, parts of part.size_bytes one after another. */
typedef struct {
  int32_t whole;
  int32_t part;     /* of kind LOOP, in no other entry */
  int32_t written;  /* 0 or 1 */
  int32_t reversed; /* 0 or 1: the first iteration has part most_iterations - 1 */
} tessera_module_scan;

/* Steps [first_step, last_step) run again and again. Loops lie within each other or apart; a LOOP buffer is used within
 * its loop only. Buffers are positions in the variant's; -1: there is none. */
typedef struct {
  int32_t first_step, last_step;
  int64_t most_iterations;   /* 0: no bound, and nothing is scanned */
  int32_t trip_count;        /* one i64, read before the first iteration */
  int32_t initial_condition; /* one byte, 0 or 1, read before the first iteration */
  int32_t condition;         /* one byte, 0 or 1, that the body writes */
  int32_t iteration;         /* one i64, written before each iteration */
  int32_t executed;          /* one i64, written behind the last iteration */
  int32_t num_carried;
  const tessera_module_carried* carried;
  const tessera_module_scan* scans;
  int32_t num_scans;
  int32_t reserved;
} tessera_module_loop;

/* An input that a run may leave out: it has this value then. Where it was compiled in, since shapes depend on it, a run
 * must not give another one. (A library that does not know `may_differ` refuses other values too.) */
typedef struct {
  int32_t input;
  int32_t may_differ; /* 1: the value is a default; 0: it was compiled in */
  const void* data;
  int64_t size_bytes; /* the input's */
} tessera_module_fixed_input;

/* A dimension of an output whose extent a step computes: after a run `buffer` holds it, an i64 of 0 to the
 * dimension's entry in `shape`. The output's elements are laid out for `shape`; the runtime packs them. */
typedef struct {
  int32_t output;
  int32_t dimension;
  int32_t buffer;
  int32_t reserved;
} tessera_module_extent;

/* A symbolic dimension of the model, bound; a negative size: a range, at most so many (-1: exactly one). What is a
 * range is one in all variants of an artifact. A range whose name says how it follows from other dimensions, as
 * "past + 1", is so large in every run (ir/dimension_formula.h). Each has an input of its name behind the model's own,
 * an i64 without dimensions, in the order of the dimensions: a run gives there how many of the elements along the
 * dimensions that follow it count. */
typedef struct {
  const char* name;
  int64_t size;
} tessera_module_dimension;

/* Sizes of a range for which the model does not work, such as an image that is smaller than a window: a run of `first`
 * to `last` elements along it is refused, unless it is a multiple of `multiple`. */
typedef struct {
  int32_t dimension; /* of the variant; a range */
  int32_t reserved;
  int64_t first, last;
  int64_t multiple; /* 0: none does */
  const char* reason;
} tessera_module_refused_sizes;

/* The model for one set of input shapes. Names and element types of inputs and outputs are those of every other
 * variant; no two variants have the same input shapes. */
typedef struct {
  const tessera_module_dimension* dimensions; /* in the order in which the model's inputs name them */
  const tessera_module_tensor* inputs;        /* tessera_module.num_inputs of them */
  const tessera_module_tensor* outputs;       /* tessera_module.num_outputs of them */
  const tessera_module_buffer* buffers;
  const tessera_module_step* steps;
  const tessera_module_extent* extents; /* ascending by output, then dimension */
  const tessera_module_refused_sizes* refused_sizes;
  const tessera_module_place* places; /* of a variant with ranges; none: all lies where `buffers` says */
  const tessera_module_loop* loops;   /* by first step; of those that begin at one step the outer one first */
  int32_t num_dimensions;
  int32_t num_buffers;
  int32_t num_steps;
  int32_t num_extents;
  int32_t num_refused_sizes;
  int32_t num_places;
  int32_t num_loops;
  int32_t reserved;
  int64_t arena_bytes; /* one per concurrent run; of the greatest sizes */
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
  /* Computes weights before the first run: one variant, no inputs, its outputs are the prepared weights of all
   * variants; it has no preparation of its own. Null: there are none. */
  const struct tessera_module* preparation;
} tessera_module;

#ifdef __cplusplus
}
#endif
#endif /* TESSERA_COMPILER_RUNTIME_MODULE_ABI_H_ */
