// SPDX-License-Identifier: Apache-2.0
// The bytes of a program's file as they are in memory once it is loaded and relocated. No process
// is needed: it may have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

class RelocatedFile : public MemoryReader {
 public:
  // file must outlive this. load_bias: from the file's addresses to those in memory. kDataLoss when
  // the table of relocations is damaged, kResourceExhausted when it is larger than any program's.
  static absl::StatusOr<RelocatedFile> open(const ElfFile& file, std::uint64_t load_bias);

  // Words that are pointers into the program itself are relocated; pointers into libraries are as
  // in the file.
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;
  // The program's segments, in the order of their addresses.
  std::vector<Mapping> mappings() const;

 private:
  struct Pointer {
    std::uint64_t address;  // in the file
    std::uint64_t value;    // in memory
  };

  RelocatedFile(const ElfFile& file, std::uint64_t load_bias)
      : file_(&file), load_bias_(load_bias) {}
  absl::Status load();

  const ElfFile* file_;
  std::uint64_t load_bias_;
  std::vector<Pointer> pointers_;  // ordered by address
};

}  // namespace memprofd
