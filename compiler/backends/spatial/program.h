#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/backends/spatial/spatial_nest.h"
#include "compiler/intrinsic/tiling_choice.h"

/// An operator as a program of a described accelerator: loops, explicit copies between its memories, instruction calls.
/// A plain value: changing it changes what runs.
namespace tessera::compiler::simulator {

/// A dimension that the program walks in blocks: an iteration of the instruction in steps of its size, or a loop
/// outside of it.
struct Dimension {
  std::string name;    ///< "i/16", or the loop's
  int64_t blocks = 1;  ///< total
  bool sum = false;
};

/// A memory level from the view of one unit of the chip.
struct Memory {
  std::string name;
  int64_t capacity = -1;        ///< bytes available to one unit; -1: not described, as large as needed
  int64_t alignment = 1;        ///< bytes
  double read = 0, write = 0;   ///< bytes per cycle; 0: not described, takes no time (registers)
  double picojoules = 0;        ///< per byte read
  double write_picojoules = 0;  ///< per byte written
};

/// A tensor of the operator, or the part of an operand that a memory holds: blocks, each of which one call takes. With
/// an epilogue, the results have no tensor (0 bytes), and its other operands have tensors and blocks of their own.
struct Buffer {
  std::string name;  ///< the tensor's or the operand's
  int memory = 0;    ///< position in Program::memories
  int operand = 0;
  v1::DataType dtype = v1::DATA_TYPE_F32;
  int64_t base = 0;   ///< bytes
  int64_t bytes = 0;  ///< of one copy
  int copies = 1;     ///< 2: one is filled while the other one is read; they are adjacent
  bool tensor = false;
  // The following fields do not apply to tensors, which are row-major or have a view. The type of a result's tensor may
  // be narrower than that of its buffers: the last copy converts.
  std::vector<int64_t> tile;  ///< blocks along each dimension; 1 along dimensions that the operand lacks
  /// for memories that results pass through on their way out: blocks at a time; tile is unused
  int64_t piece = 0;
  int64_t block_bytes = 0;       ///< distance of two blocks
  std::vector<int64_t> offsets;  ///< byte offset within a block, for each element of the operand in row-major order
};

/// A tensor within a buffer: the element with subscripts s is at offset + sum of strides[d] * s[d].
struct View {
  std::vector<int64_t> strides;  ///< in elements
  int64_t offset = 0;
  int64_t elements = 0;  ///< of the whole buffer
  bool operator==(const View&) const = default;
};

/// A nest that runs element by element on results while a memory holds them on their way out. Its output is stored in
/// place of the results.
struct Epilogue {
  SpatialNest nest;
  int carried = 0;                     ///< the access of the nest that reads the results
  std::vector<int64_t> elements = {};  ///< per access: of its buffer
  std::string unit = {}, level = {};   ///< the vector unit, and the memory on which it works
  int lanes = 1;
  int64_t instances = 1;                              ///< of the unit
  double cycles = 0, operations = 0, picojoules = 0;  ///< of one point on one instance
  // Set by lowering, per access, -1 for the results: its tensor, and its blocks in the memory.
  std::vector<int> tensors = {}, tiles = {};
};

struct ProgramLoop {
  int dimension = 0;
  int64_t trips = 1;
  int64_t step = 1;  ///< blocks
  int level = 0;     ///< of the tiling: the loop is between this level's tile and the next inner one
};

struct Step {
  enum Kind { kFill, kCopy, kCall, kVector };
  Kind kind = kCall;
  int operand = 0;         ///< of kFill and kCopy
  int from = -1, to = -1;  ///< positions in Program::buffers; kFill has no `from`
  int depth = 0;           ///< number of enclosing loops
  bool after = false;      ///< runs after the inner loops: outgoing results
  int access = -1;         ///< of a copy: the access of the epilogue that it serves, in place of the operand
};

struct Program {
  intrinsic::Choice choice;  ///< operator, instruction and mapping, with the program's final tiling
  loopnest::Nest instruction;
  std::vector<View> views;              ///< per access of the operator; none: row-major tensors of the smallest shape
  std::vector<std::string> levels;      ///< of the tiling, innermost first
  std::vector<Dimension> dimensions;    ///< iterations of the instruction, then PhysicalMapping::outer
  std::vector<std::vector<int>> walks;  ///< per operand: its dimensions in the order of its blocks, slowest first
  std::vector<Memory> memories;         ///< memories that statements name; the last one holds the tensors
  std::vector<Memory> caches;           ///< levels that no statement names, nearest first: they cache passing data
  std::vector<Buffer> buffers;          ///< tensors in the operator's order, then those of operands
  std::vector<int> operands;            ///< per operand of the instruction: the buffer that the call uses
  std::vector<ProgramLoop> loops;       ///< outermost first
  int shared = 0;                       ///< number of outermost loops that are divided among the units
  int64_t units = 1;
  std::vector<Step> steps;  ///< in program order among equal depths
  std::optional<Epilogue> epilogue;
  std::string chip, unit;
  double frequency_ghz = 0;
};

/// Text for readers: memories, buffers with their addresses, loops with their copies and calls.
std::string print(const Program& program);

/// Checks the program's buffers: within their memory, disjoint, aligned. Fails with INVALID_ARGUMENT naming the buffer.
absl::Status checkBuffers(const Program& program);

}  // namespace tessera::compiler::simulator
