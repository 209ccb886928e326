#include "dsrv/runtime/memory.h"

#include <cstddef>

// jemalloc's. Weak, for the builds with a sanitizer, which bring an allocator of their own.
extern "C" [[gnu::weak]] int mallctl(const char* name, void* old_value, size_t* old_size,
                                     void* new_value, size_t new_size);

namespace dfsmr {

void ReturnFreedMemory() {
  if (!mallctl) return;
  mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
  mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // MALLCTL_ARENAS_ALL: of all arenas
}

}  // namespace dfsmr
