#include "daemon/plugin_follower.h"

#include <iterator>
#include <utility>

#include "daemon/discover/frame_table.h"
#include "spdlog/spdlog.h"

namespace memprofd {

PluginFollower::PluginFollower(Target& target, std::shared_ptr<OcamlSymbolizer> symbolizer)
    : finder_(std::move(target.plugin_finder)),
      found_(std::exchange(target.plugins, {})),
      symbolizer_(std::move(symbolizer)) {}

void PluginFollower::add_found(AttachedTarget& target) {
  for (OcamlCode& plugin : std::exchange(found_, {})) add(std::move(plugin), target);
}

void PluginFollower::follow(std::uint64_t registered, AttachedTarget& target) {
  if (seen_ == registered) return;
  seen_ = registered;
  const TargetMemory& memory = *target.target().memory;
  const auto maps = memory.maps();
  if (!maps.ok()) return;  // ended or ending: found out elsewhere
  auto later = finder_.find_new(*maps, memory);
  std::move(later.begin(), later.end(), std::back_inserter(found_));
  add_found(target);
}

// Names come before addresses: what the symbolizer was asked once it does not look up again.
void PluginFollower::add(OcamlCode plugin, AttachedTarget& target) {
  const int pid = target.target().pid;
  const std::string name = plugin.file->display_name();
  spdlog::info("pid {}: plugin {} has {} frame descriptors", pid, name,
               plugin.frames.descriptors().size());
  symbolizer_->add(std::move(plugin.file), plugin.load_bias, plugin.frames);
  const absl::Status status = target.kernel().add_frames(build_kernel_frame_table(plugin.frames));
  if (!status.ok()) spdlog::warn("pid {}: {}: {}", pid, name, std::string(status.message()));
}

}  // namespace memprofd
