#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/intrinsic/choice.h"

/// An operator as a program of a described accelerator: loops, explicit copies between its memories, instruction calls.
/// A value: whoever changes it changes what runs.
namespace tessera::compiler::simulator {

/// What the program walks in blocks: an iteration of the instruction in steps of its size, or a loop outside of it.
struct Dimension {
  std::string name;    ///< "i/16", or the loop's
  int64_t blocks = 1;  ///< in all
  bool sum = false;
};

/// A memory level as one unit of the chip sees it.
struct Memory {
  std::string name;
  int64_t capacity = -1;       ///< bytes, of one unit; -1: the description does not say, so what is asked for is there
  int64_t alignment = 1;       ///< bytes
  double read = 0, write = 0;  ///< bytes a cycle; 0: not described, takes no time (registers)
  double picojoules = 0;       ///< a byte
};

/// A tensor of the operator, or what a memory holds of one operand: blocks, each of which one call takes.
struct Buffer {
  std::string name;  ///< the tensor's or the operand's
  int memory = 0;    ///< position in Program::memories
  int operand = 0;
  v1::DataType dtype = v1::DATA_TYPE_F32;
  int64_t base = 0;   ///< bytes
  int64_t bytes = 0;  ///< of one copy
  int copies = 1;     ///< 2: filled while the other one is read; one behind the other
  bool tensor = false;
  // Not of tensors, which are row-major.
  std::vector<int64_t> tile;     ///< blocks along each dimension, 1 along those that the operand does not have
  int64_t piece = 0;             ///< of what results pass on their way out: blocks at once; tile does not count
  int64_t block_bytes = 0;       ///< from one block to the next
  std::vector<int64_t> offsets;  ///< bytes within a block, of each element of the operand in row-major order
};

struct ProgramLoop {
  int dimension = 0;
  int64_t trips = 1;
  int64_t step = 1;  ///< blocks
  int level = 0;     ///< of the tiling: between its tile and that of the level inside
};

struct Step {
  enum Kind { kFill, kCopy, kCall };
  Kind kind = kCall;
  int operand = 0;         ///< of kFill and kCopy
  int from = -1, to = -1;  ///< positions in Program::buffers; kFill has no `from`
  int depth = 0;           ///< loops outside of it
  bool after = false;      ///< behind the loops inside of it: results on their way out
};

struct Program {
  intrinsic::Choice choice;  ///< operator, instruction and mapping, with the tiling that the program has
  intrinsic::Nest instruction;
  std::vector<Dimension> dimensions;    ///< iterations of the instruction, then PhysicalMapping::outer
  std::vector<std::vector<int>> walks;  ///< per operand: its dimensions, in the order its blocks lie, slowest first
  std::vector<Memory> memories;         ///< those that it names; the last one holds the tensors
  std::vector<Memory> caches;           ///< levels that no statement names, nearest first: they keep what passes
  std::vector<Buffer> buffers;          ///< tensors in the operator's order, then those of operands
  std::vector<int> operands;            ///< per operand of the instruction: the buffer it works on
  std::vector<ProgramLoop> loops;       ///< outermost first
  int shared = 0;                       ///< the first of them are divided among the units
  int64_t units = 1;
  std::vector<Step> steps;  ///< in program order among equal depths
  std::string chip, unit;
  double frequency_ghz = 0;
};

/// For the engineer of the chip: memories, buffers with their addresses, loops with what they copy and call.
std::string print(const Program& program);

/// Faults of the program as a value: buffers outside of their memory, on each other, or not aligned. INVALID_ARGUMENT
/// naming the buffer.
absl::Status checkBuffers(const Program& program);

}  // namespace tessera::compiler::simulator
