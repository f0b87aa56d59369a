// SPDX-License-Identifier: Apache-2.0
// Symbolizer of one OCaml program, from the program's file and those of its plugins.
//
// Frame tables and debuginfo are in .data, never written after the start and
// self-relative, so the file's bytes serve; only pointers, which need
// relocation, are wrong there, and the return addresses come from the frame
// table that was read from the process. The files are kept open: answers survive
// the program's exit and the files' removal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/symbolize/debuginfo.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

struct Target;

// The initial contents of a loaded program's memory.
class FileMemory : public MemoryReader {
 public:
  // file must outlive this.
  FileMemory(const ElfFile& file, std::uint64_t load_bias) : file_(file), load_bias_(load_bias) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    return file_.read(address - load_bias_, out);
  }

 private:
  const ElfFile& file_;
  std::uint64_t load_bias_;
};

class OcamlSymbolizer : public Symbolizer {
 public:
  // frames: addresses in the process; load_bias: added to file addresses to get these; budget: the
  // target's.
  OcamlSymbolizer(std::unique_ptr<ElfFile> program, std::uint64_t load_bias, FrameTable frames,
                  LocationFormat format, SharedBudget budget = nullptr);

  // Adds a plugin. Call it before any of its addresses is looked up. Any thread.
  void add(std::unique_ptr<ElfFile> plugin, std::uint64_t load_bias, FrameTable frames);

  std::vector<Location> look_up(std::uint64_t return_address, std::int32_t alloc_idx) override;
  std::string build_id(std::string_view library) override;

 private:
  std::vector<Location> look_up_debuginfo(std::uint64_t address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(code_mutex_);

  struct Code {
    std::unique_ptr<ElfFile> file;
    std::uint64_t load_bias = 0;
    std::string library;
    FrameTable frames;

    std::vector<Location> from_debuginfo(std::uint64_t debuginfo, LocationFormat format) const;
    std::vector<Location> from_descriptor(std::uint64_t descriptor, std::int32_t alloc_idx,
                                          LocationFormat format) const;
    Location from_symbols(std::uint64_t return_address) const;
  };

  const LocationFormat format_;
  Mutex code_mutex_;
  std::vector<Code> code_ ABSL_GUARDED_BY(code_mutex_);  // the program first
};

// Of a target that was just found, whose open program it takes.
std::shared_ptr<OcamlSymbolizer> symbolizer_of(Target& target);

}  // namespace memprofd
