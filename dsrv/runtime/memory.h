// What the allocator keeps of the process's memory.
#pragma once

namespace dfsmr {

// Hands memory that was freed back to the system. jemalloc does so by itself only while others
// allocate, so after a peak that nothing follows all of it would stay in the process. Takes some
// milliseconds for 100 MB; does nothing under another allocator. Any thread.
void ReturnFreedMemory();

}  // namespace dfsmr
