#pragma once

namespace tessera::worker {

/// Makes operator new, and a failing thread creation, end the process with kTaskOutOfMemory instead of throwing. The
/// worker reports this as OUT_OF_MEMORY.
void exitWhenMemoryRunsOut();

/// Ends the process in this way; for allocators with their own handlers.
[[noreturn]] void exitOutOfMemory();

}  // namespace tessera::worker
