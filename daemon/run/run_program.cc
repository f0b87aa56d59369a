// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/run_program.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/relocated_file.h"
#include "daemon/symbolize/ocaml_symbolizer.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Symbolizes the addresses of a process with the file of its program.
class ProcessNames : public Symbolizer {
 public:
  ProcessNames(std::shared_ptr<const RunProgram> program, std::shared_ptr<Symbolizer> names,
               std::uint64_t load_bias)
      : Symbolizer(ByteBudget::for_target()),
        program_(std::move(program)),
        names_(std::move(names)),
        load_bias_(load_bias) {}

  std::string build_id(std::string_view library) override { return names_->build_id(library); }

 protected:
  std::vector<Location> look_up(std::uint64_t return_address, std::int32_t alloc_idx) override {
    return names_->locations(program_->in_file(return_address, load_bias_), alloc_idx);
  }

 private:
  const std::shared_ptr<const RunProgram> program_;
  const std::shared_ptr<Symbolizer> names_;
  const std::uint64_t load_bias_;
};

// Returns a path in the form in which the agent reports it. A file in /proc/PID may have a name in
// another mount namespace only.
std::string full_name(const std::string& path) {
  std::error_code error;
  std::string name = std::filesystem::canonical(path, error).string();
  if (error) name = std::filesystem::read_symlink(path, error).string();
  return error ? path : name;
}

}  // namespace

absl::StatusOr<std::shared_ptr<RunProgram>> RunProgram::open(const std::string& path,
                                                             std::string name) {
  ASSIGN_OR_RETURN(std::unique_ptr<ElfFile> file,
                   ElfFile::open(path, name, ByteBudget::for_target()));
  ASSIGN_OR_RETURN(OcamlProgram ocaml, check_program(*file));
  if (!ocaml.why_no_agent.empty()) return absl::FailedPreconditionError(ocaml.why_no_agent);
  const auto callback = file->find_symbol("caml_callback_exn");
  if (!callback) return absl::FailedPreconditionError("has no symbol caml_callback_exn");
  std::shared_ptr<RunProgram> program(
      new RunProgram(std::move(name), std::move(file), std::move(ocaml)));
  program->callback_exn_ = callback->address;
  for (const ElfSegment& segment : program->file_->segments()) {
    program->end_ = std::max(program->end_, segment.address + segment.memory_size);
  }
  return program;
}

absl::StatusOr<std::uint64_t> RunProgram::load_bias(std::uint64_t callback_exn) const {
  if (callback_exn < callback_exn_) {
    return absl::FailedPreconditionError("reports an impossible address of its runtime");
  }
  return callback_exn - callback_exn_;
}

absl::StatusOr<std::shared_ptr<Symbolizer>> RunProgram::names() {
  if (names_ != nullptr) return names_;
  ASSIGN_OR_RETURN(const RelocatedFile memory, RelocatedFile::open(*file_, 0));
  ASSIGN_OR_RETURN(FrameTable frames,
                   read_frame_table(memory, memory.mappings(), ocaml_.symbols.frametable.address));
  names_ = std::make_shared<OcamlSymbolizer>(
      std::move(file_), 0, std::move(frames),
      ocaml_.abi.end_lines ? LocationFormat::kLines : LocationFormat::kLine,
      ByteBudget::for_target());
  return names_;
}

absl::StatusOr<std::shared_ptr<Symbolizer>> RunProgram::names_at(std::uint64_t load_bias) {
  ASSIGN_OR_RETURN(std::shared_ptr<Symbolizer> names, this->names());
  if (load_bias == 0) return names;
  return std::make_shared<ProcessNames>(shared_from_this(), std::move(names), load_bias);
}

absl::StatusOr<std::shared_ptr<RunProgram>> RunPrograms::find(const std::string& path) {
  struct stat at {};
  if (::stat(path.c_str(), &at) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  const File file{at.st_dev, at.st_ino, at.st_mtim.tv_sec, at.st_mtim.tv_nsec};
  const auto known = programs_.find(file);
  if (known != programs_.end()) return known->second;
  if (programs_.size() >= kMax) programs_.clear();
  return programs_.emplace(file, RunProgram::open(path, full_name(path))).first->second;
}

}  // namespace memprofd
