// SPDX-License-Identifier: Apache-2.0
// The data of a program's file that profiling its processes needs, read once for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/program_check.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Owned by one thread; any thread may use the symbolizers that it creates.
class RunProgram : public std::enable_shared_from_this<RunProgram> {
 public:
  // name: of the file, in messages and reports. kFailedPrecondition: its processes cannot be
  // profiled; the message is the rest of a sentence that starts with the name.
  static absl::StatusOr<std::shared_ptr<RunProgram>> open(const std::string& path,
                                                          std::string name);

  const std::string& name() const { return name_; }
  const OcamlProgram& ocaml() const { return ocaml_; }
  const RuntimeAbi& abi() const { return ocaml_.abi; }
  // Address in a process minus address in the file. callback_exn: caml_callback_exn in the process.
  absl::StatusOr<std::uint64_t> load_bias(std::uint64_t callback_exn) const;
  // Converts an address of a process to one of the file; returns other addresses unchanged.
  std::uint64_t in_file(std::uint64_t address, std::uint64_t load_bias) const {
    return address - load_bias < end_ ? address - load_bias : address;
  }
  // Symbolizes addresses of the file; used for counts of several processes.
  absl::StatusOr<std::shared_ptr<Symbolizer>> names();
  // Symbolizes addresses of a process.
  absl::StatusOr<std::shared_ptr<Symbolizer>> names_at(std::uint64_t load_bias);

 private:
  RunProgram(std::string name, std::unique_ptr<ElfFile> file, OcamlProgram ocaml)
      : name_(std::move(name)), file_(std::move(file)), ocaml_(std::move(ocaml)) {}

  std::string name_;
  std::unique_ptr<ElfFile> file_;  // null: names_ has it
  OcamlProgram ocaml_;
  std::uint64_t callback_exn_ = 0;  // its address in the file
  std::uint64_t end_ = 0;           // end of the file's addresses
  std::shared_ptr<Symbolizer> names_;
};

// The programs of one run, each read once. Owned by one thread.
class RunPrograms {
 public:
  static constexpr std::size_t kMax = 256;  // files that are remembered

  // path may be a link in /proc. Errors are remembered, too.
  absl::StatusOr<std::shared_ptr<RunProgram>> find(const std::string& path);

 private:
  using File = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t>;

  std::map<File, absl::StatusOr<std::shared_ptr<RunProgram>>> programs_;
};

}  // namespace memprofd
