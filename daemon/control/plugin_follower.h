// SPDX-License-Identifier: Apache-2.0
// Plugins of a target: their names for its symbolizer, their frames for its stack walks. Owned by
// the control thread; before that, the inspection that prepares the target uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/attach/attached_target.h"
#include "daemon/control/inspection.h"
#include "daemon/discover/plugins.h"
#include "daemon/symbolize/ocaml_symbolizer.h"

namespace memprofd {

class PluginFollower {
 public:
  PluginFollower() = default;
  // Takes over the plugins that the target's inspection found.
  PluginFollower(Target& target, std::shared_ptr<OcamlSymbolizer> symbolizer);

  // Adds the plugins that were found. Call it before the first session, so that stacks of its
  // samples can be walked through them.
  void add_found(AttachedTarget& target);
  // Adds the known plugins again after the target was attached in another way.
  void add_again(AttachedTarget& target);
  // Searches for plugins in a separate thread, which calls wake at its end, if the program has
  // registered frame tables since the last search, and in the first call. `registered` counts the
  // registrations. Processes the result of the last search. Call this repeatedly.
  void follow(std::uint64_t registered, AttachedTarget& target, const std::function<void()>& wake);

 private:
  struct Plugin {
    OcamlCode code;
    KernelFrameTable table;
  };
  struct PreparedPlugins {
    PluginFinder finder;
    std::vector<Plugin> plugins;
  };

  static Plugin prepare(OcamlCode code, const SharedBudget& budget);
  static PreparedPlugins prepare_plugins(PluginFinder finder, const TargetMemory& memory,
                                         const SharedBudget& budget, const std::stop_token& stop);
  void start_inspection(const AttachedTarget& target, const std::function<void()>& wake);
  void take_over(AttachedTarget& target);
  void add(Plugin plugin, AttachedTarget& target);
  void walk_through(const KernelFrameTable& table, const std::string& name, AttachedTarget& target);
  void log_problems(int pid);

  PluginFinder finder_;                                    // except during a search, which owns it
  std::vector<Plugin> found_;                              // not yet added
  std::vector<std::pair<std::string, FrameTable>> added_;  // by name; shared with the symbolizer
  std::shared_ptr<OcamlSymbolizer> symbolizer_;
  std::optional<std::uint64_t> seen_;  // registrations already processed
  std::optional<Inspection<PreparedPlugins>> inspection_;
  std::chrono::steady_clock::time_point next_inspection_;
  std::optional<std::chrono::steady_clock::time_point> refused_since_;  // too many inspections run
  std::size_t problems_logged_ = 0;
  bool logged_refusal_ = false;
  bool logged_no_slots_ = false;
  bool logged_left_out_ = false;
  bool given_up_ = false;
};

}  // namespace memprofd
