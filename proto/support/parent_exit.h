#pragma once

namespace tessera {

/// Sends `signal` to this process when its parent process ends, since a parent that is killed cannot stop its children.
/// The threads of the parent are irrelevant. Block signals that are awaited with sigwait before the call, because it
/// may start a thread. Returns false if the parent has already ended.
[[nodiscard]] bool signalOnParentExit(int signal);

}  // namespace tessera
