// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/plugin_follower.h"

#include <utility>

#include "daemon/discover/frame_table.h"
#include "daemon/util/about_pid.h"
#include "daemon/util/log.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

// A program may register frame tables at any rate, so inspections take at most one part in kOneIn
// of the time.
constexpr int kOneIn = 10;
// Time between two tries while too many inspections run. After kInspectionBudget, a warning.
constexpr std::chrono::seconds kBetweenTries{1};

}  // namespace

PluginFollower::PluginFollower(Target& target, std::shared_ptr<OcamlSymbolizer> symbolizer)
    : finder_(std::move(target.plugin_finder)), symbolizer_(std::move(symbolizer)) {
  for (OcamlCode& code : std::exchange(target.plugins, {})) {
    found_.push_back(prepare(std::move(code), target.budget));
  }
}

PluginFollower::Plugin PluginFollower::prepare(OcamlCode code, const SharedBudget& budget) {
  KernelFrameTable table = build_kernel_frame_table(code.frames, 0, budget);
  return {std::move(code), std::move(table)};
}

void PluginFollower::add_found(AttachedTarget& target) {
  for (Plugin& plugin : std::exchange(found_, {})) add(std::move(plugin), target);
  log_problems(target.target().pid);
}

void PluginFollower::follow(std::uint64_t registered, AttachedTarget& target,
                            const std::function<void()>& wake) {
  if (inspection_) return take_over(target);
  if (seen_ == registered || given_up_ || std::chrono::steady_clock::now() < next_inspection_)
    return;
  seen_ = registered;
  start_inspection(target, wake);
}

void PluginFollower::start_inspection(const AttachedTarget& target,
                                      const std::function<void()>& wake) {
  const auto start = [finder = finder_, memory = target.target().memory,
                      budget = target.target().budget](const std::stop_token& stop) {
    return prepare_plugins(finder, *memory, budget, stop);
  };
  auto inspection = Inspection<PreparedPlugins>::start(start, wake);
  if (inspection.ok()) {
    inspection_.emplace(*std::move(inspection));
    refused_since_.reset();
    return;
  }
  seen_.reset();  // try again when threads are free
  const auto now = std::chrono::steady_clock::now();
  next_inspection_ = now + kBetweenTries;
  if (!refused_since_) refused_since_ = now;
  if (now - *refused_since_ < kInspectionBudget || std::exchange(logged_refusal_, true)) return;
  log_warning("pid {}: plugins are not searched for: {}", target.target().pid,
              without_pid(target.target().pid, std::string(inspection.status().message())));
}

// Runs on the inspection's thread.
PluginFollower::PreparedPlugins PluginFollower::prepare_plugins(PluginFinder finder,
                                                                const TargetMemory& memory,
                                                                const SharedBudget& budget,
                                                                const std::stop_token& stop) {
  PreparedPlugins found;
  const auto maps = memory.maps();
  if (maps.ok()) {  // otherwise the program is ending, which is detected elsewhere
    for (OcamlCode& code : finder.find_new(*maps, memory, stop)) {
      found.plugins.push_back(prepare(std::move(code), budget));
    }
  }
  found.finder = std::move(finder);
  return found;
}

void PluginFollower::take_over(AttachedTarget& target) {
  const int pid = target.target().pid;
  if (!inspection_->done()) {
    if (!inspection_->over_budget()) return;
    inspection_.reset();
    given_up_ = true;
    log_warning(
        "pid {}: the search for plugins took longer than {} s, callstacks end at new ones; attach "
        "again when its file system answers (FUSE, NFS)",
        pid, kInspectionBudget.count());
    return;
  }
  next_inspection_ = std::chrono::steady_clock::now() + kOneIn * inspection_->age();
  PreparedPlugins found = inspection_->take();
  inspection_.reset();
  finder_ = std::move(found.finder);
  // The process may have become another program, for which the data is useless.
  if (!check_same_program(target.target()).ok()) return;
  found_ = std::move(found.plugins);
  add_found(target);
}

// Adds names before addresses, because the symbolizer looks up each address only once.
void PluginFollower::add(Plugin plugin, AttachedTarget& target) {
  const int pid = target.target().pid;
  const std::string name = plugin.code.file->display_name();
  log_info("pid {}: plugin {} has {} frame descriptors", pid, name,
           plugin.code.frames.descriptors().size());
  added_.emplace_back(name, plugin.code.frames);
  symbolizer_->add(std::move(plugin.code.file), plugin.code.load_bias, plugin.code.frames);
  walk_through(plugin.table, name, target);
}

void PluginFollower::add_again(AttachedTarget& target) {
  for (const auto& [name, frames] : added_) {
    walk_through(build_kernel_frame_table(frames, 0, target.target().budget), name, target);
  }
}

void PluginFollower::walk_through(const KernelFrameTable& table, const std::string& name,
                                  AttachedTarget& target) {
  const int pid = target.target().pid;
  const absl::Status status = target.kernel().add_frames(table);
  if (!status.ok())
    log_warning("pid {}: {}: {}", pid, name, without_pid(pid, std::string(status.message())));
  if (table.left_out == 0 || std::exchange(logged_no_slots_, true)) return;
  log_warning(
      "pid {}: {}: {} of its frame descriptors are damaged or exceed the {} that one target may "
      "use; callstacks end at their code",
      pid, name, table.left_out, format_bytes(static_cast<double>(kTargetBytes)));
}

// Logs each reason once, because a program may load any number of plugins.
void PluginFollower::log_problems(int pid) {
  for (const auto& problems = finder_.problems(); problems_logged_ < problems.size();) {
    log_warning("pid {}: plugin {}", pid, problems[problems_logged_++]);
  }
  if (finder_.left_out() == 0 || std::exchange(logged_left_out_, true)) return;
  log_warning(
      "pid {}: too many plugins: callstacks end at those beyond the first {} or beyond the "
      "kernel's table; {} are omitted so far",
      pid, PluginFinder::kMaxPlugins, finder_.left_out());
}

}  // namespace memprofd
