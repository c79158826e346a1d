#include "compiler/runtime/faults.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <iterator>
#include <mutex>

namespace tessera::compiler {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr size_t kHandlerStackBytes = size_t{64} << 10;  // AMX state alone takes 11 KB of a signal frame

/// The return point of a body in catchFault().
struct Trap {
  sigjmp_buf back{};
  Fault fault;
};

// One word each, allocated at the thread's start (initial-exec): a lazily allocated variable could be touched first in
// a signal handler.
[[gnu::tls_model("initial-exec")]] thread_local const RunningKernel* running = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local Trap* trap = nullptr;

struct sigaction before[std::size(kSignals)];
std::once_flag installed;
bool reporting = false;
void (*on_end)(const char* sentence) = nullptr;

/// Formats a sentence in fixed memory, truncated to its size.
class Text {
 public:
  Text(char* text, size_t size) : text_(text), left_(size - 1) {}
  size_t length() const { return length_; }
  Text& operator<<(const char* words) {
    for (; *words && left_ > 0; ++words, --left_) text_[length_++] = *words;
    text_[length_] = 0;
    return *this;
  }
  Text& operator<<(int64_t value) {
    char digits[24];
    char* at = digits + sizeof(digits) - 1;
    *at = 0;
    auto rest = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    do *--at = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0) *--at = '-';
    return *this << at;
  }

 private:
  char* text_;
  size_t left_, length_ = 0;
};

const char* nameOf(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIGFPE";
  }
}

void describe(const Fault& fault) {
  char sentence[1024];
  const size_t length = describeFault(fault, *running, sentence, sizeof(sentence) - 1);
  if (on_end) return on_end(sentence);
  sentence[length] = '\n';
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, sentence, length + 1);
}

void onFault(int signal, siginfo_t* info, void*) {
  const Fault fault{signal, info->si_addr};
  if (trap) {
    trap->fault = fault;
    siglongjmp(trap->back, 1);
  }
  if (running && reporting) {
    describe(fault);
    running = nullptr;
  }
  // After the handler returns, the instruction runs again and meets the previous handler, or the default one.
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] == signal) sigaction(signal, &before[i], nullptr);
  }
  if (info->si_code <= 0) raise(signal);  // sent by a process, not caused by an instruction
}

void install() {
  std::call_once(installed, [] {
    struct sigaction action = {};
    action.sa_sigaction = onFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before[i]);
  });
}

}  // namespace

RunningKernelScope::RunningKernelScope(const RunningKernel& kernel) {
  running = &kernel;
  // Orders the store before the kernel: the compiler sees no reader of it there.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

RunningKernelScope::~RunningKernelScope() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  running = nullptr;
}

size_t describeFault(const Fault& fault, const RunningKernel& kernel, char* buffer, size_t size) {
  Text text(buffer, size);
  text << nameOf(fault.signal) << " in kernel " << kernel.symbol << " (step " << int64_t{kernel.step_index} << ": "
       << kernel.step << "), phase " << int64_t{kernel.phase} << ", grid [" << kernel.low << ", " << kernel.high << ")";
  if (fault.signal == SIGILL || fault.signal == SIGFPE) return text.length();
  for (int32_t i = 0; i < kernel.num_operands; ++i) {
    const GuardedMemory* memory = kernel.operands[i];
    if (!memory || !memory->isNear(fault.address)) continue;
    const ptrdiff_t distance = memory->distance(fault.address);
    text << ": ";
    if (distance == 0) text << "a write to ";
    if (distance != 0)
      text << int64_t{distance < 0 ? -distance : distance} << (distance < 0 ? " bytes before " : " bytes behind ");
    if (i == kernel.num_operands - 2) {
      text << "the workspace";
    } else if (i == kernel.num_operands - 1) {
      text << "the thread's scratch";
    } else {
      text << "operand " << int64_t{i};
    }
    text << " of " << static_cast<int64_t>(memory->size()) << " bytes";
    break;
  }
  return text.length();
}

void reportFaults(void (*ended)(const char* sentence)) {
  thread_local HandlerStack handler_stack;  // only for this thread; threads that start later install their own
  on_end = ended;
  reporting = true;
  install();
}

std::optional<Fault> catchFault(void (*body)(void*), void* context) {
  install();
  Trap here;
  trap = &here;
  if (sigsetjmp(here.back, 1) == 0) {
    body(context);
    trap = nullptr;
    return std::nullopt;
  }
  trap = nullptr;
  running = nullptr;  // its scope was left without running its destructor
  return here.fault;
}

HandlerStack::HandlerStack() {
  stack_t current = {};
  if (sigaltstack(nullptr, &current) != 0 || !(current.ss_flags & SS_DISABLE)) return;
  void* memory = mmap(nullptr, kHandlerStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = kHandlerStackBytes;
  if (sigaltstack(&stack, nullptr) == 0) {
    memory_ = memory;
  } else {
    munmap(memory, kHandlerStackBytes);
  }
}

HandlerStack::~HandlerStack() {
  if (!memory_) return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(memory_, kHandlerStackBytes);
}

}  // namespace tessera::compiler
