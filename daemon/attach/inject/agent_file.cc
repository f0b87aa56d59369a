// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/agent_file.h"

#include <cstddef>
#include <filesystem>
#include <span>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/discover/agent_names.h"
#include "daemon/discover/elf_file.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::Status unusable(const std::string& path, const std::string& why) {
  return absl::DataLossError(
      absl::StrCat("agent ", path, ": ", why,
                   "; build or install all of memprofd, or name the agent with --agent"));
}

// Checks the control block as stored in the file, before any process has loaded it.
absl::Status check_build(const ElfFile& file, std::uint64_t control) {
  AgentBuild build;
  RETURN_IF_ERROR(file.read(control, std::as_writable_bytes(std::span(&build, 1))));
  if (is_our_build(build)) return absl::OkStatus();
  return absl::DataLossError("built for another memprofd");
}

}  // namespace

absl::StatusOr<AgentFile> open_agent_file(const std::string& path) {
  std::error_code error;
  const std::string absolute = std::filesystem::canonical(path, error).string();
  if (error) return unusable(path, error.message());
  auto file = ElfFile::open(absolute, absolute);
  if (absl::IsResourceExhausted(file.status())) return file.status();
  if (!file.ok()) return unusable(path, std::string(file.status().message()));
  const auto control = (*file)->find_symbol("memprof_agent_control");
  const auto poll = (*file)->find_symbol("memprof_agent_poll");
  const auto native_heap = (*file)->find_symbol("memprof_c_heap");
  const auto native_alloc = (*file)->find_symbol("memprof_c_alloc_probe");
  const auto native_free = (*file)->find_symbol("memprof_c_free_probe");
  if (!control || !poll || !native_heap || !native_alloc || !native_free)
    return unusable(path, "not a memprofd agent");
  if (auto status = check_build(**file, control->address); !status.ok()) {
    return unusable(path, std::string(status.message()));
  }
  for (const StapProbe& probe : (*file)->stap_probes()) {
    if (probe.provider != "memprof" || probe.name != "batch") continue;
    const auto location = (*file)->offset_of(probe.location);
    const auto semaphore = (*file)->offset_of(probe.semaphore);
    const auto alloc_location = (*file)->offset_of(native_alloc->address);
    const auto free_location = (*file)->offset_of(native_free->address);
    if (!location || !semaphore || !alloc_location || !free_location) continue;
    return AgentFile{.path = absolute,
                     .probe_offset = *location,
                     .semaphore_offset = *semaphore,
                     .probe = probe.location,
                     .control = control->address,
                     .poll = poll->address,
                     .native_heap = native_heap->address,
                     .native_alloc_offset = *alloc_location,
                     .native_free_offset = *free_location,
                     .elf = *std::move(file)};
  }
  return unusable(path, "no probe memprof:batch");
}

std::optional<AgentLocation> locate_agent(const AgentFile& file, const std::vector<Mapping>& maps,
                                          const std::string& mapped_path) {
  const auto bias = find_load_bias(maps, mapped_path, *file.elf);
  if (!bias) return std::nullopt;
  return agent_loaded_at(file, *bias, mapped_path);
}

AgentLocation agent_loaded_at(const AgentFile& file, std::uint64_t bias, const std::string& path) {
  return AgentLocation{.path = path,
                       .control_address = bias + file.control,
                       .poll_address = bias + file.poll,
                       .probe_offset = file.probe_offset,
                       .probe_address = bias + file.probe,
                       .semaphore_offset = file.semaphore_offset,
                       .native_heap_address = bias + file.native_heap,
                       .native_alloc_offset = file.native_alloc_offset,
                       .native_free_offset = file.native_free_offset};
}

std::string default_agent_path() {
  std::error_code error;
  const auto directory = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto beside = directory / kAgentName;
  if (std::filesystem::exists(beside, error)) return beside.string();
  return (directory.parent_path() / "lib" / "memprofd" / kAgentName).string();
}

}  // namespace memprofd
