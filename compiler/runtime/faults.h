#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "compiler/runtime/guarded_memory.h"

/// What becomes of a SIGSEGV, SIGBUS, SIGILL or SIGFPE in generated code: the kernel is named. Needs libc only; what
/// runs in the signal handler neither allocates nor locks.
namespace tessera::compiler {

/// The kernel that a thread is in.
struct RunningKernel {
  const char* step = "";    ///< nodes of the model
  const char* symbol = "";  ///< the workload's
  int32_t step_index = 0;
  int32_t phase = 0;
  int64_t low = 0, high = 0;                       ///< the range of the phase's grid
  const GuardedMemory* const* operands = nullptr;  ///< of a guarded run: in the kernel's order; then workspace, scratch
  int32_t num_operands = 0;
};

/// Says so for its lifetime. A thread's latest one counts.
class RunningKernelScope {
 public:
  explicit RunningKernelScope(const RunningKernel& kernel);
  ~RunningKernelScope();
  RunningKernelScope(const RunningKernelScope&) = delete;
  RunningKernelScope& operator=(const RunningKernelScope&) = delete;
};

/// An instruction that the system stopped.
struct Fault {
  int signal = 0;
  const void* address = nullptr;  ///< that it wanted, or of itself (SIGILL, SIGFPE)
};

/// "SIGSEGV in kernel w3 (step 4: conv1+relu), phase 1, grid [0, 16): 8 bytes behind operand 2". Cut to `size`, which
/// counts the 0 at its end; returns the length. Async-signal-safe.
size_t describeFault(const Fault& fault, const RunningKernel& kernel, char* buffer, size_t size);

/// From now on a fault in generated code of any thread is described to `ended` in the signal handler; when that
/// returns, or is null and the sentence went to standard error, the process goes on to the handler that was there
/// before, which by default ends it. Faults elsewhere go there at once.
void reportFaults(void (*ended)(const char* sentence));

/// Calls body(context), and returns what stopped it, if something did. The body holds nothing at that moment that wants
/// its destructor or an unlock: it is generated code. Within the body, one more call of this is not possible.
std::optional<Fault> catchFault(void (*body)(void*), void* context);
template <typename Body>
std::optional<Fault> catchFault(Body&& body) {
  return catchFault([](void* context) { (*static_cast<std::remove_reference_t<Body>*>(context))(); }, &body);
}

/// Stack for handlers of the calling thread while it lives, so that running out of stack is described as well. Where
/// the thread has one, or the system refuses, nothing changes.
class HandlerStack {
 public:
  HandlerStack();
  ~HandlerStack();
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace tessera::compiler
