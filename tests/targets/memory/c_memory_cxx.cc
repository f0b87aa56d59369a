// SPDX-License-Identifier: Apache-2.0
// Loaded by c_memory instead of c_memory_library; allocates with the operators of C++.
#include <dlfcn.h>

#include <cstdlib>
#include <new>

namespace {

struct Block {
  Block* next;
};
struct alignas(64) Aligned {
  char bytes[1024];
};

Block* kept;

// Calls every operator, and one with a size that cannot be allocated.
void pass() {
  delete[] new char[1000];
  delete new (std::nothrow) char;
  ::operator delete (::operator new(1000), std::size_t{1000});
  delete new Aligned;
  delete[] new Aligned[2];
  if (dlsym(RTLD_DEFAULT, "mi_malloc") != nullptr) return;  // its operators end the program
  try {
    void* volatile never = ::operator new (std::size_t{1} << 62);
    std::abort();
    ::operator delete(never);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

extern "C" long c_memory_library_keep(long bytes) {
  pass();
  Block* block = static_cast<Block*>(::operator new(static_cast<std::size_t>(bytes)));
  block->next = kept;
  kept = block;
  return bytes;
}
