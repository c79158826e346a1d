#pragma once

namespace tessera {

/// Sends `signal` to this process once the one that started it has ended: a command or a program that is killed cannot
/// end what it started. By which of its threads, and whether that thread goes on, makes no difference. Signals that are
/// waited for have to be blocked before. False where that process has ended already.
[[nodiscard]] bool endWithParent(int signal);

}  // namespace tessera
