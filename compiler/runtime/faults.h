#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "compiler/runtime/guarded_memory.h"

/// Reports SIGSEGV, SIGBUS, SIGILL and SIGFPE in generated code with the name of the kernel. Needs libc only; the
/// signal handler neither allocates nor locks.
namespace tessera::compiler {

/// The kernel that a thread is running.
struct RunningKernel {
  const char* step = "";    ///< nodes of the model
  const char* symbol = "";  ///< the workload's
  int32_t step_index = 0;
  int32_t phase = 0;
  int64_t low = 0, high = 0;  ///< the range of the phase's grid
  /// in a guarded run: operands in the kernel's order, then workspace, scratch
  const GuardedMemory* const* operands = nullptr;
  int32_t num_operands = 0;
};

/// Registers the kernel as running for the lifetime of the scope. The latest scope of a thread is effective.
class RunningKernelScope {
 public:
  explicit RunningKernelScope(const RunningKernel& kernel);
  ~RunningKernelScope();
  RunningKernelScope(const RunningKernelScope&) = delete;
  RunningKernelScope& operator=(const RunningKernelScope&) = delete;
};

/// An instruction that raised a signal.
struct Fault {
  int signal = 0;
  const void* address = nullptr;  ///< accessed address, or that of the instruction (SIGILL, SIGFPE)
};

/// For example "SIGSEGV in kernel w3 (step 4: conv1+relu), phase 1, grid [0, 16): 8 bytes behind operand 2". Truncated
/// to `size`, which includes the terminating 0; returns the length. Async-signal-safe.
size_t describeFault(const Fault& fault, const RunningKernel& kernel, char* buffer, size_t size);

/// Installs the signal handlers. From then on, a fault in generated code of any thread calls `ended` with the sentence
/// of describeFault(), within the signal handler; if `ended` is null, the sentence is written to standard error. Then
/// the handler runs that was installed before this call; by default it ends the process. Faults outside of generated
/// code go to that handler directly.
void reportFaults(void (*ended)(const char* sentence));

/// Calls body(context) and returns the fault that stopped it, if any. After a fault the body's stack is abandoned, so
/// the body must hold no locks and no objects with destructors, as is the case for generated code. Not reentrant within
/// the body.
std::optional<Fault> catchFault(void (*body)(void*), void* context);
template <typename Body>
std::optional<Fault> catchFault(Body&& body) {
  return catchFault([](void* context) { (*static_cast<std::remove_reference_t<Body>*>(context))(); }, &body);
}

/// An alternative signal stack for the calling thread during the object's lifetime, so that a stack overflow is
/// reported as well. Has no effect if the thread has one already or the system refuses.
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
