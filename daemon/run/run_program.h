// SPDX-License-Identifier: Apache-2.0
// A program's file as far as profiling its processes needs it: read once for all of them.
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

// Owned by one thread; the symbolizers that it makes may be asked by any.
class RunProgram : public std::enable_shared_from_this<RunProgram> {
 public:
  // name: what messages and reports call the file. kFailedPrecondition: its processes cannot be
  // profiled; the message is the rest of a sentence that starts with the name.
  static absl::StatusOr<std::shared_ptr<RunProgram>> open(const std::string& path,
                                                          std::string name);

  const std::string& name() const { return name_; }
  const OcamlProgram& ocaml() const { return ocaml_; }
  const RuntimeAbi& abi() const { return ocaml_.abi; }
  // From the file's addresses to those of a process, which has caml_callback_exn there.
  absl::StatusOr<std::uint64_t> load_bias(std::uint64_t callback_exn) const;
  // An address of a process as one of the file; unchanged if it is not of the file.
  std::uint64_t in_file(std::uint64_t address, std::uint64_t load_bias) const {
    return address - load_bias < end_ ? address - load_bias : address;
  }
  // Names of the file's addresses: for counts of several processes.
  absl::StatusOr<std::shared_ptr<Symbolizer>> names();
  // Names of the addresses of a process.
  absl::StatusOr<std::shared_ptr<Symbolizer>> names_at(std::uint64_t load_bias);

 private:
  RunProgram(std::string name, std::unique_ptr<ElfFile> file, OcamlProgram ocaml)
      : name_(std::move(name)), file_(std::move(file)), ocaml_(std::move(ocaml)) {}

  std::string name_;
  std::unique_ptr<ElfFile> file_;  // null: names_ has it
  OcamlProgram ocaml_;
  std::uint64_t callback_exn_ = 0;  // in the file
  std::uint64_t end_ = 0;           // behind the file's last address
  std::shared_ptr<Symbolizer> names_;
};

// The programs of one run, each read once. Owned by one thread.
class RunPrograms {
 public:
  static constexpr std::size_t kMost = 256;  // files that are remembered

  // path: also of a link in /proc. The error is remembered too.
  absl::StatusOr<std::shared_ptr<RunProgram>> find(const std::string& path);

 private:
  using File = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t>;

  std::map<File, absl::StatusOr<std::shared_ptr<RunProgram>>> programs_;
};

}  // namespace memprofd
