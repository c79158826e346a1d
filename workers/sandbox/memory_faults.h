#pragma once

namespace tessera::worker {

/// From now on operator new ends the process with kTaskOutOfMemory instead of throwing, and so does a
/// thread that cannot be started. The worker reports it as OUT_OF_MEMORY.
void exitWhenMemoryRunsOut();

/// The end itself, for allocators with handlers of their own.
[[noreturn]] void exitOutOfMemory();

}  // namespace tessera::worker
