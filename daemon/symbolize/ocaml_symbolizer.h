// Symbolizer of one OCaml program, from the program's file.
//
// Frame tables and debuginfo are in .data, never written after the start and
// self-relative, so the file's bytes serve; only pointers, which need
// relocation, are wrong there, and the return addresses come from the frame
// table that was read from the process. The file is kept open: answers survive
// the program's exit and its file's removal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/symbolize/debuginfo.h"
#include "daemon/symbolize/symbolizer.h"

namespace memprofd {

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
  // frames: addresses as in the process; load_bias: from the file's to those.
  OcamlSymbolizer(std::unique_ptr<ElfFile> program, std::uint64_t load_bias,
                  const FrameTable& frames, LocationFormat format);

  std::vector<Location> look_up(std::uint64_t return_address, std::int32_t alloc_idx) override;

 private:
  std::uint64_t descriptor_of(std::uint64_t return_address) const;
  Location from_symbols(std::uint64_t return_address);

  const std::unique_ptr<ElfFile> program_;
  const std::uint64_t load_bias_;
  const std::string module_;
  const LocationFormat format_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> descriptors_;  // return address, address
};

}  // namespace memprofd
