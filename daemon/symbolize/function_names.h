// SPDX-License-Identifier: Apache-2.0
// Full names of a program's functions. Symbols of ocamlopt lack inner modules; the debuginfo of the
// calls and allocations in a function has them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/frame_table.h"
#include "daemon/symbolize/debuginfo.h"

namespace memprofd {

class FunctionNames {
 public:
  // file must outlive this. frames: addresses in the process; load_bias: added to file addresses to
  // get these.
  FunctionNames(const ElfFile& file, std::uint64_t load_bias, FrameTable frames,
                LocationFormat format)
      : file_(file), load_bias_(load_bias), frames_(std::move(frames)), format_(format) {}

  // "Server.Sessions.find"; only "Server.find" if the function has no debuginfo, because it was
  // compiled without -g, or neither allocates nor calls.
  std::string of(const ElfFunction& function) const;

 private:
  const ElfFile& file_;
  const std::uint64_t load_bias_;
  const FrameTable frames_;
  const LocationFormat format_;
};

}  // namespace memprofd
